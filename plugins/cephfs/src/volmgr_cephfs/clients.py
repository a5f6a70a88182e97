"""The two clients of CephFS: the kernel's, and ceph-fuse. Each makes one mount, or leaves nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from volmgr.plugin import CommandError, Host, OperationError, UnansweredError, UncertainError
from volmgr_cephfs.settings import CephFsSettings, Client
from volmgr_cephfs.source import CephFsSource

FUSE_MARKER = "/sbin/mount.fuse.ceph"
"""Executable on a node whose volumes ceph-fuse mounts, as it was for kubelet."""

FSTYPES = ("ceph", "fuse.ceph-fuse")

_STARTED = "starting fuse"
_KERNELS_TIMEOUT = 60  # seconds; what the kernel's client waits for by itself, CEPH_MOUNT_TIMEOUT_DEFAULT
_ALL = range(-64, 256)  # exit codes, and signals that ended it
_NOISE = ("parsing config file", "ceph.conf", "using default settings", "init, newargv")
_WHO = "the key is another one than the user's, or the user may not use this path"
_NO_HELPER = "mount.ceph is not installed: install the package ceph-common, or ceph-fuse"
_HINTS = (
    ("unknown filesystem type", _NO_HELPER),
    ("helper program", _NO_HELPER),
    ("no mds", f"no metadata server is up, or {_WHO}: look at `ceph status`"),
    ("mon config", _WHO),
    ("permission denied", _WHO),
    ("not permitted", _WHO),
    ("no such file", "the path does not exist in this file system: make it"),
    ("not supported by the system", "this kernel has no client: load its module ceph, or install ceph-fuse"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One mount; `answer_within` and `deadline` are in seconds from now."""

    source: CephFsSource
    target: Path
    options: tuple[str, ...]
    key: str = field(repr=False)
    answer_within: int
    deadline: float

    @property
    def label(self) -> str:
        """Name it in messages."""
        source = self.source
        return f"mount {source.directory} of the Ceph file system at {', '.join(source.addresses)} as {source.name}"


def uses_fuse(host: Host) -> bool:
    """Say whether this node mounts by ceph-fuse."""
    client = host.settings_of(CephFsSettings).client
    return client is Client.FUSE or (client is Client.AUTO and host.commands.find(FUSE_MARKER) is not None)


def key_file(source: CephFsSource, key: str, *, fuse: bool) -> str:
    """Give what the file holds that the client reads: the key alone, or a keyring."""
    return f"[client.{source.name}]\n\tkey = {key}\n" if fuse else f"{key}\n"


def mount_by_kernel(wanted: Wanted, file: Path, host: Host) -> None:
    """Mount by the kernel's client; mount.ceph reads the file and hands the key to the kernel, not to the options."""
    source, patience = wanted.source, wanted.answer_within
    timeout = () if patience == _KERNELS_TIMEOUT else (f"mount_timeout={patience}",)
    started = host.clock()
    try:
        host.mounts.ensure_mounted(
            wanted.target,
            "ceph",
            source=f"{','.join(source.addresses)}:{source.directory}",
            options=(*wanted.options, *timeout, f"name={source.name}", f"secretfile={file}"),
            deadline=wanted.deadline,
        )
    except CommandError as error:
        raise _refused(wanted, error.stderr, host.clock() - started) from error


def mount_by_fuse(wanted: Wanted, file: Path, host: Host) -> None:
    """Mount by a server of its own, which says that it started, and stays when its command has ended."""
    source = wanted.source
    argv = (
        "ceph-fuse",
        *("-k", str(file)),
        *("-m", ",".join(source.addresses)),
        str(wanted.target),
        *("-r", source.directory),
        *("--id", source.name),
        f"--client_mount_timeout={wanted.answer_within}",
        *(("-o", ",".join(wanted.options)) if wanted.options else ()),
    )
    started = host.clock()
    result = host.commands.run(host.commands.lasting(argv), deadline=wanted.deadline, accept=_ALL)
    said = f"{result.stdout}\n{result.stderr}"
    if result.exit_code or _STARTED not in said:
        raise _refused(wanted, f"{said}\nceph-fuse exited with {result.exit_code}", host.clock() - started)
    if not host.mounts.is_mount_point(wanted.target):
        raise UncertainError(f"cannot {wanted.label}: ceph-fuse has started, but nothing is mounted there")


def _refused(wanted: Wanted, said: str, seconds: float) -> OperationError:
    """Give the error of a client, with what it means; the key is never in it.

    Both clients say of monitors that are silent what they say of a wrong key; but only then they wait for all of their
    time.
    """
    lines = [line.strip() for line in said.splitlines()]
    told = dict.fromkeys(line for line in lines if line and not any(noise in line for noise in _NOISE))
    text = ": ".join([*told][-3:]).replace(wanted.key, "<masked>") or "no message"
    if seconds >= wanted.answer_within:
        return UnansweredError(f"cannot {wanted.label} within {wanted.answer_within} s: {text}")
    hint = next((hint for word, hint in _HINTS if word in text.lower()), "")
    return OperationError(f"cannot {wanted.label}: {text}" + (f"; {hint}" if hint else ""))
