"""Kubelets of this machine: whether one has the root directory that is to be ours.

Judged by processes only. What a Lease or a Ready condition says, node agents say of themselves, too.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from volmgr.host import syscalls
from volmgr.host.peers import peer_of

_ROOT = "/var/lib/kubelet"
"""Kubelet's default of `--root-dir`."""
_SOCKET = "pod-resources/kubelet.sock"
"""Where kubelet listens below its root directory (`pkg/kubelet/apis/podresources` of kubelet 1.37)."""
_BEFORE_ROOT = frozenset({"--", "", "--kubelet-arg=", "--kubelet-"})
"""What stands before `root-dir` in an option of kubelet, of k3s and rke2 (one word or two), and of k0s."""
_DELETED = " (deleted)"  # an upgrade has replaced the program of a process


@dataclass(frozen=True, slots=True, kw_only=True)
class _Program:
    """A kubelet, or a program with one in it if its sub-command or an option is one of `marks` (none: always)."""

    stop: str
    root: str = _ROOT
    marks: frozenset[str] = frozenset()


_PROGRAMS = {
    "kubelet": _Program(stop="systemctl stop kubelet"),
    "kubelite": _Program(stop="snap stop microk8s.daemon-kubelite", root="/var/snap/microk8s/common/var/lib/kubelet"),
    "k3s": _Program(stop="systemctl stop k3s k3s-agent", marks=frozenset({"server", "agent"})),
    "rke2": _Program(stop="systemctl stop rke2-server rke2-agent", marks=frozenset({"server", "agent"})),
    "k0s": _Program(
        stop="k0s stop", root="/var/lib/k0s/kubelet", marks=frozenset({"worker", "--enable-worker", "--single"})
    ),
}
"""By the name of the executable, and as each of them is installed by default."""


@dataclass(frozen=True, slots=True)
class Kubelet:
    """A process that has a root directory; `stop` is the command that ends it."""

    pid: int
    command: str
    stop: str


def kubelet_of(root: Path) -> Kubelet | None:
    """Find the process that has this root directory, under whatever name and in whatever mount namespace."""
    try:
        place = _place(os.stat(root))
    except FileNotFoundError:
        return None
    listener = _listener(root / _SOCKET)
    # It is asked first: k3s hides its arguments, and with them where its root is.
    if listener is not None and (found := _kubelet(listener)) is not None:
        return found[0]
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        found = _kubelet(pid)
        if found is not None and place in _places(pid, found[1]):
            return found[0]
    return None


def _kubelet(pid: int) -> tuple[Kubelet, tuple[str, ...]] | None:
    """Give a process that is a kubelet, and its root directories as it calls them; None for any other, or one gone."""
    try:
        path = os.readlink(f"/proc/{pid}/exe").removesuffix(_DELETED)
        program = _PROGRAMS.get(path.rpartition("/")[2])
        if program is None:
            return None
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # a kernel thread, a process that has ended, or one that is not ours to see
        return None
    words = [os.fsdecode(word) for word in arguments.strip(b"\0").split(b"\0")]
    said = words if len(words) > 1 else words[0].split(" ")  # one that rewrote its title has blanks in it
    does = next((word for word in said[1:] if not word.startswith("-")), "")
    options = (word.removesuffix("=true") for word in said if word.startswith("--"))
    marks = [word for word in (does, *options) if word in program.marks]
    if program.marks and not marks:
        return None
    return Kubelet(pid, " ".join((path, *marks[:1])), program.stop), tuple(_named(said)) or (program.root,)


def _named(words: Sequence[str]) -> Iterator[str]:
    """Give the values of `--root-dir`, also where it stands in an option such as `--kubelet-arg`."""
    for word, following in pairwise((*words, "")):
        before, found, value = word.partition("root-dir")
        if not found or before not in _BEFORE_ROOT:
            continue
        if value.startswith("="):
            yield value[1:]
        elif not value:
            yield following


def _places(pid: int, paths: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Give device and inode of what a process finds by these paths."""
    for path in paths:
        with suppress(OSError):  # it has ended, or has made no such directory yet
            start = os.open(f"/proc/{pid}/{'root' if path.startswith('/') else 'cwd'}", os.O_PATH | os.O_CLOEXEC)
            try:
                found = syscalls.open_in_root(path, os.O_PATH, descriptor=start)
            finally:
                os.close(start)
            try:
                yield _place(os.fstat(found))
            finally:
                os.close(found)


def _place(info: os.stat_result) -> tuple[int, int]:
    return info.st_dev, info.st_ino


def _listener(path: Path) -> int | None:
    """Give the process that listens on a socket; None when there is none, or none that can be seen."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(os.fsencode(path))
            return peer_of(probe).pid or None
        except OSError:
            return None
