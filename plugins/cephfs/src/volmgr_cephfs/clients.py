"""The two clients of CephFS: the kernel's, and ceph-fuse. Each makes one mount, or leaves nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from volmgr.plugin import CommandError, CommandResult, Host, OperationError, UncertainError
from volmgr_cephfs.source import CephFsSource

FUSE_MARKER = "/sbin/mount.fuse.ceph"
"""Executable on a node whose volumes ceph-fuse mounts, as it was for kubelet."""

FSTYPES = ("ceph", "fuse.ceph-fuse")

_STARTED = "starting fuse"
_MOUNT_TIMEOUT = 60  # seconds; what the kernel's client waits for monitors, CEPH_MOUNT_TIMEOUT_DEFAULT
_HINTS = (
    ("no mds", "the monitors do not answer, or no metadata server is up: look at `ceph status`"),
    ("timed out", "the monitors do not answer: look at `ceph status`, and at the way to them"),
    ("permission denied", "the key is another one than the user's, or the user may not use this path"),
    ("not permitted", "the key is another one than the user's, or the user may not use this path"),
    ("no such file", "the path does not exist in this file system; make it"),
    ("not supported by the system", "this kernel has no client: load its module ceph, or install ceph-fuse"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One mount; `deadline` is in seconds from now."""

    source: CephFsSource
    target: Path
    options: tuple[str, ...]
    key: str = field(repr=False)
    deadline: float

    @property
    def label(self) -> str:
        """Name it in messages."""
        source = self.source
        return f"mount {source.directory} of the Ceph file system at {', '.join(source.addresses)} as {source.name}"


def uses_fuse(host: Host) -> bool:
    """Say whether this node mounts by ceph-fuse."""
    return host.commands.find(FUSE_MARKER) is not None


def key_file(source: CephFsSource, key: str, *, fuse: bool) -> str:
    """Give what the file holds that the client reads: the key alone, or a keyring."""
    return f"[client.{source.name}]\n\tkey = {key}\n" if fuse else f"{key}\n"


def mount_by_kernel(wanted: Wanted, file: Path, host: Host) -> None:
    """Mount by the kernel's client; mount.ceph reads the file and hands the key to the kernel, not to the options."""
    source = wanted.source
    try:
        host.mounts.ensure_mounted(
            wanted.target,
            "ceph",
            source=f"{','.join(source.addresses)}:{source.directory}",
            options=(*wanted.options, f"name={source.name}", f"secretfile={file}"),
            deadline=wanted.deadline,
        )
    except CommandError as error:
        raise _refused(wanted, error.stderr) from error


def mount_by_fuse(wanted: Wanted, file: Path, host: Host) -> None:
    """Mount by a server of its own, which says that it started and stays when its command has ended."""
    source = wanted.source
    argv = (
        "ceph-fuse",
        *("-k", str(file)),
        *("-m", ",".join(source.addresses)),
        str(wanted.target),
        *("-r", source.directory),
        *("--id", source.name),
        f"--client_mount_timeout={_MOUNT_TIMEOUT}",
        *(("-o", ",".join(wanted.options)) if wanted.options else ()),
    )
    result = host.commands.run(host.commands.lasting(argv), deadline=wanted.deadline, accept=range(-64, 256))
    if result.exit_code or _STARTED not in result.stdout + result.stderr:
        raise _refused(wanted, _said(result))
    if not host.mounts.is_mount_point(wanted.target):
        raise UncertainError(f"cannot {wanted.label}: ceph-fuse has started, but nothing is mounted there")


def _said(result: CommandResult) -> str:
    said = (result.stderr.strip() or result.stdout.strip()) or "nothing"
    return f"ceph-fuse exited with {result.exit_code} and said: {said}"


def _refused(wanted: Wanted, said: str) -> OperationError:
    """Give the error of a client, with what it means; the key is never in it."""
    text = said.strip().replace(wanted.key, "<masked>") or "no message"
    hint = next((hint for word, hint in _HINTS if word in text.lower()), "")
    return OperationError(f"cannot {wanted.label}: {text}" + (f"; {hint}" if hint else ""))
