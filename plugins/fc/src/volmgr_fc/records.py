"""Which volume a directory is of, where its name cannot say so: a file in `ROOT/volmgr/fc/names/`.

kubelet parts names at each `-`, which may be within a WWID; its own directories, without such a file, are read its way.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from volmgr.plugin import Checkpoints
from volmgr_fc.names import FibreChannelSource, names_of, of_directory, says_all

if TYPE_CHECKING:
    from volmgr.plugin import Host


def note(host: Host, place: Path, source: FibreChannelSource) -> None:
    """Write down whose a directory is, if its name does not say it; one that says it needs no note of another."""
    wanted = None if says_all(source) else names_of(source)
    if noted(host, place) == wanted:
        return
    if wanted is None:
        remove(host, place)
        return
    checkpoints = _checkpoints(host)
    checkpoints.write(checkpoints.name_of(place), {"directory": str(place), "wwids": wanted.wwids})


def read(host: Host, place: Path) -> FibreChannelSource:
    """Say whose a directory is; raises NotReconstructible."""
    return noted(host, place) or of_directory(place.name)


def noted(host: Host, place: Path) -> FibreChannelSource | None:
    """Say whose a directory is, if that was written down."""
    checkpoints = _checkpoints(host)
    wwids = (checkpoints.read(checkpoints.name_of(place)) or {}).get("wwids")
    if not isinstance(wwids, list):  # nothing was, or it is damaged: the name is what is left
        return None
    return FibreChannelSource(wwids=tuple(map(str, cast("list[object]", wwids))))


def remove(host: Host, place: Path) -> None:
    """Forget it: the directory is gone."""
    checkpoints = _checkpoints(host)
    checkpoints.remove(checkpoints.name_of(place))


def _checkpoints(host: Host) -> Checkpoints:
    return Checkpoints(host, "fc", "names")
