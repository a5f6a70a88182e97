"""hostPath: a file, directory, socket or device of the node itself, checked or made as its type says.

Behaviour: `pkg/volume/hostpath` of kubelet 1.37.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from volmgr.plugin import (
    Applies,
    Facets,
    Handles,
    Host,
    Mount,
    Mounted,
    Objects,
    OperationError,
    Pod,
    SpecError,
    TransientError,
    Unmount,
    Unmounted,
    VolumePlugin,
    VolumeSpec,
    path_problem,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPathSource:
    """`hostPath` of a Pod volume or PersistentVolume: what to give, and what it has to be."""

    path: str
    type: str = ""


@dataclass(frozen=True, slots=True)
class _Kind:
    """What one type accepts: `kind` of the host's file information, its name in messages, and whether to make it.

    `creating` is the type that makes what this one does not.
    """

    kind: str
    words: str
    create: bool = False
    creating: str = ""


_TYPES = {
    "DirectoryOrCreate": _Kind("directory", "a directory", create=True),
    "Directory": _Kind("directory", "a directory", creating="DirectoryOrCreate"),
    "FileOrCreate": _Kind("file", "a file", create=True),
    "File": _Kind("file", "a file", creating="FileOrCreate"),
    "Socket": _Kind("socket", "a socket file"),
    "CharDevice": _Kind("char", "a character device"),
    "BlockDevice": _Kind("block", "a block device"),
}
_FOUND = {
    "directory": "it's a Directory",
    "file": "it's a File",
    "socket": "it's a Socket",
    "char": "it's a CharDevice",
    "block": "it's a BlockDevice",
    "fifo": "it's a FIFO",
    "unknown": "it's nothing that a type names",
    "symlink": "it's a dangling symbolic link",
}
_DIRECTORY_MODE = 0o755
_FILE_MODE = 0o644


class HostPath(VolumePlugin[HostPathSource]):
    """Give a Pod a path of the node; nothing of it is ever deleted."""

    name = "kubernetes.io/host-path"
    api_version = 1
    handles = (Handles("hostPath", source=HostPathSource),)

    def volume_name(self, spec: VolumeSpec[HostPathSource]) -> str:
        return spec.source.path

    def facets(self, spec: VolumeSpec[HostPathSource], objects: Objects) -> Facets:
        del spec, objects
        return Facets(fs_group=Applies.NOBODY, directory=False, relabel=False)

    def check(self, spec: VolumeSpec[HostPathSource], pod: Pod | None) -> None:
        del pod
        checked_path(spec.source.path)
        _wanted(spec.source.type)

    def mount(self, request: Mount[HostPathSource], host: Host) -> Mounted:
        source = request.spec.source
        path, wanted = checked_path(source.path), _wanted(source.type)
        if wanted is not None:
            _check(path, wanted, host)
        return Mounted(path=path)

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        del request, host
        return Unmounted()


def _wanted(written: str) -> _Kind | None:
    """Give what the path has to be; no type asks for no look at it at all, not even whether it is there."""
    if written and written not in _TYPES:
        raise SpecError(f"{written} is an invalid volume type; write one of {', '.join(_TYPES)}, or none")
    return _TYPES.get(written)


def checked_path(path: str) -> Path:
    """Give the path, or raise SpecError for one that no container may be given."""
    problem = path_problem(path)
    if problem:
        message = f"invalid HostPath {path!r}: path {problem}"
        raise SpecError(message)
    return Path(path)


def _check(path: Path, wanted: _Kind, host: Host) -> None:
    info = host.files.info(path, follow=True)
    if info is None and wanted.create:
        _make(path, wanted, host)
        return
    if info is None:
        # Nothing changed, and it may appear yet: a Pod may ask for the socket of a service that starts later.
        made = f", or write type: {wanted.creating}" if wanted.creating else ""
        message = (
            f"hostPath type check failed: {path} is not {wanted.words}, it does not exist;"
            f" make it{made}: it is looked for again and again"
        )
        raise TransientError(message, waits_for=str(path))
    if info.kind != wanted.kind:
        message = f"hostPath type check failed: {path} is not {wanted.words}, {_FOUND[info.kind]}"
        raise OperationError(message)


def _make(path: Path, wanted: _Kind, host: Host) -> None:
    """Make what is missing; who else makes it at the same time does no harm, a dangling link is never followed."""
    dangling = host.files.info(path)
    if dangling is not None and dangling.kind == "symlink":
        message = f"hostPath type check failed: {path} is not {wanted.words}, {_FOUND['symlink']}; nothing was created"
        raise OperationError(message)
    if wanted.kind == "directory":
        host.files.ensure_directory(path, _DIRECTORY_MODE, parents_mode=_DIRECTORY_MODE)
        return
    if host.files.info(path.parent, follow=True) is None:
        message = f"cannot make the file {path}: its directory does not exist"
        raise TransientError(message, waits_for=str(path.parent))
    host.files.ensure_file(path, _FILE_MODE)
