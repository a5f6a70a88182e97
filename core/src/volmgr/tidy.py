"""Clear away what a Pod leaves behind when its last mount is gone: empty directories, subPath binds, records.

Only empty directories and empty files (markers, bind targets) go. What is not empty is kept and named.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from volmgr.errors import VolmgrError
from volmgr.journal import Journal
from volmgr.model.names import unescape
from volmgr.report.world import Orphan

if TYPE_CHECKING:
    from volmgr.host.interface import Host

_FOREIGN = "it holds data that volmgr did not make"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tidied:
    """What is left of a Pod: nothing, or what was kept and why; `forgotten`: its record is gone, too.

    `failed`: not all that is to go could be taken away; it is tried again. `gone`: directories of volumes that were
    empty and of which no record says that there is more to them.
    """

    uid: str
    kept: tuple[Orphan, ...] = ()
    forgotten: bool = False
    failed: bool = False
    gone: tuple[Path, ...] = ()


def tidy(host: Host, uid: str) -> Tidied:
    """Remove what is empty of a Pod's directory, and say what was kept."""
    paths, files = host.paths, host.files
    top = paths.pod(uid)
    kept: list[Orphan] = []
    gone: list[Path] = []
    failed = False
    journal = Journal(host)
    journal.forget_pod(uid)
    if files.info(top) is None:
        return Tidied(uid=uid)
    for tree in (paths.subpaths(uid), top / "plugins"):
        try:
            left = clear_binds(host, tree)
        except VolmgrError as error:
            kept.append(Orphan(pod_uid=uid, path=str(tree), reason=str(error)))
            failed = True
            continue
        kept.extend(Orphan(pod_uid=uid, path=path, reason=_FOREIGN) for path in left)
    for volumes in (paths.volumes(uid), paths.block_volumes(uid)):
        for plugin in files.names(volumes):
            for name in files.names(volumes / plugin):
                reason = _remove_volume(host, volumes / plugin / name)
                if reason:
                    path = str(volumes / plugin / name)
                    kept.append(Orphan(pod_uid=uid, path=path, reason=reason, plugin=unescape(plugin)))
                elif journal.read_mount(uid, name) is None:
                    gone.append(volumes / plugin / name)
            files.remove_directory(volumes / plugin)
        files.remove_directory(volumes)
    if not files.remove_directory(top) and not kept:
        names = ", ".join(files.names(top))
        kept.append(Orphan(pod_uid=uid, path=str(top), reason=f"it holds what volmgr did not make: {names}"))
    return Tidied(uid=uid, kept=tuple(kept), failed=failed, gone=tuple(gone))


def clear_binds(host: Host, tree: Path) -> tuple[str, ...]:
    """Unmount everything below a tree of bind targets or markers and remove what is empty; gives what was kept.

    Raises BusyError when something cannot be unmounted: then nothing is removed.
    """
    if host.files.info(tree) is None:
        return ()
    host.mounts.unmount_below(tree)
    return tuple(_remove_empty(host, tree))


def _remove_empty(host: Host, path: Path) -> list[str]:
    info = host.files.info(path)
    if info is None:
        return []
    if info.kind == "file" and info.size == 0:
        host.files.remove_file(path)
        return []
    if info.kind != "directory":
        return [str(path)]
    kept = [left for name in host.files.names(path) for left in _remove_empty(host, path / name)]
    return kept if kept or host.files.remove_directory(path) else [str(path)]


def _remove_volume(host: Host, path: Path) -> str:
    """Remove an empty volume directory; else say why it is kept."""
    if host.mounts.is_mount_point(path):
        return "something is mounted on it, and no installed volume type says how to take it away"
    info = host.files.info(path)
    if info is not None and info.kind != "directory":
        return f"it is a {info.kind} that no installed volume type takes away"
    mounted = path / "mount"  # CSI publishes below, not at, the volume's directory
    if host.mounts.is_mount_point(mounted):
        return f"something is mounted on {mounted}"
    if host.files.names(path) == ("mount",) and not host.files.remove_directory(mounted):
        return _FOREIGN
    return "" if host.files.remove_directory(path) else _FOREIGN
