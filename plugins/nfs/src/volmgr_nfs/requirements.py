"""What a node needs for NFS volumes, and whether it has it."""

from __future__ import annotations

from pathlib import Path

from volmgr.plugin import Host, OperationError, Requirement

_TYPES = Path("/proc/filesystems")
_INSTALL = "install nfs-common (Debian, Ubuntu), nfs-utils (Fedora) or nfs-client (openSUSE)"


def requirements(host: Host) -> tuple[Requirement, ...]:
    """Look for the helper of mount(8), the kernel's client, and the daemon that version 3 needs for locks."""
    return (
        _program(host, "mount.nfs", _INSTALL),
        _client(host, "nfs", "load the module nfs: install the kernel's package that has it", optional=False),
        _client(host, "nfsv4", "load the module nfsv4, or use version 3 (mount option vers=3)", optional=True),
        _program(
            host,
            "rpc.statd",
            f"{_INSTALL}; or give volumes of version 3 the mount option nolock: version 4 does not need it",
            optional=True,
        ),
    )


def _program(host: Host, name: str, remedy: str, *, optional: bool = False) -> Requirement:
    path = host.commands.find(name)
    detail = f"is {path}" if path else "is not installed"
    return Requirement(check=name, met=path is not None, detail=detail, remedy=remedy, optional=optional)


def _client(host: Host, module: str, remedy: str, *, optional: bool) -> Requirement:
    loaded = _is_loaded(host, module)
    known = loaded or _is_known(host, module)
    detail = "is there" if loaded else "is a module that is loaded with the first mount" if known else "is not there"
    check = f"kernel client {module}"
    return Requirement(check=check, met=known, detail=detail, remedy=remedy, optional=optional)


def _is_loaded(host: Host, module: str) -> bool:
    name = "nfs4" if module == "nfsv4" else module  # the module's file system
    return name in (host.files.read(_TYPES) or b"").decode().split()


def _is_known(host: Host, module: str) -> bool:
    try:
        return host.commands.run(("modprobe", "-n", module), accept=range(256), changes=False).exit_code == 0
    except OperationError:
        return False
