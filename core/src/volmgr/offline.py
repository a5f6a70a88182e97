"""The world as records, disk and mount table show it, without a daemon; nothing is changed."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volmgr import root as roots
from volmgr.admission import Admission
from volmgr.config import Config
from volmgr.desk import Outside
from volmgr.discovery import load
from volmgr.errors import OperationError
from volmgr.helper_records import HelperRecords
from volmgr.holds import Holds
from volmgr.host.local import local_host
from volmgr.messages import HoldTaken, Reconstructed
from volmgr.reconciler import Reconciler
from volmgr.reconstruct import reconstruct
from volmgr.report.events import EventLog
from volmgr.report.world import World
from volmgr.sources import footing
from volmgr.sources.deadlines import Deadlines
from volmgr.sources.folder import Folder
from volmgr.sources.registry import Registry
from volmgr.sources.unchanged import Unchanged

if TYPE_CHECKING:
    from volmgr.host.interface import Files, Host

_EDITION = "without a daemon"
"""No daemon has this one: every manifest is read."""

_CHANGES = frozenset(
    {
        "ensure_directory",
        "ensure_file",
        "write",
        "ensure_symlink",
        "make_tree",
        "rename",
        "remove_file",
        "remove_directory",
        "remove_tree",
        "discard",
        "chmod",
        "chown",
    }
)


class _Unchanged:
    """Files that can be read; what would change them is quietly left undone."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the methods of Files
        if name in _CHANGES:
            return _leave_undone
        return getattr(self._files, name)


def _leave_undone(*_arguments: object, **_options: object) -> bool:
    return False


def offline_world(root: Path, manifests: Path | None) -> World:
    """Give the world of a root directory and, if given, a manifests directory; raises OperationError."""
    if root.exists() and not root.is_dir():
        raise OperationError(f"{root} is no directory; name the root directory of a volmgrd")
    host = _unchanged(local_host(root))
    plugins = load()
    config = Config()
    events = EventLog(time.time, config.events_kept)
    world = World(paths=host.paths, plugins=plugins, events=events, admission=Admission(config))
    outside = Outside(monotonic=time.monotonic, wall=time.time, submit=lambda _chore: None, forget=lambda _uid: False)
    reconciler = Reconciler(world, host, config, outside)
    reconciler.stop_admitting(lambda: None)
    reconciler.set_read_only(read_only=roots.is_foreign(host))
    registry = Registry(host.files, host.paths, reconciler.post)
    if manifests is not None:
        registry.expect("directory")
    registry.start()
    registry.state("api", ready=True)
    if manifests is not None:
        problem = _read(manifests, host, registry, reconciler)
        registry.state("directory", ready=not problem, problem=problem)
    for hold in Holds(host).load():
        reconciler.post(HoldTaken(hold))
    reconciler.post(Reconstructed(reconstruct(host, plugins), HelperRecords(host).load()))
    reconciler.step()
    return world


def _unchanged(host: Host) -> Host:
    files: Any = _Unchanged(host.files)
    return replace(host, files=files)


def _read(manifests: Path, host: Host, registry: Registry, reconciler: Reconciler) -> str:
    """Offer what the directory holds; gives why it is not ready, or nothing."""
    path = os.path.abspath(manifests)
    resolved = os.path.realpath(path)
    try:
        problem = footing.moved(footing.recorded(host, "directory"), footing.footing(host, path, resolved))
    except OSError as error:
        problem = f"{path}: {error.strerror}"
    if problem:
        return problem
    deadlines = Deadlines()
    folder = Folder(
        "directory",
        path,
        registry,
        reconciler.world.plugins,
        deadlines,
        Unchanged(host.files, host.paths, "directory", _EDITION),
        removal_settle=0.0,
        relook=0.0,
        record_retry=0.0,
    )
    folder.resolved = resolved
    folder.scan()
    folder.look(lambda: None, lambda: None)
    deadlines.run_due(float("inf"))
    return ""
