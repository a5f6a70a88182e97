"""Which volume a directory is of, where its name cannot say so: a file in `ROOT/volmgr/fc/names/`.

kubelet parts names at each `-`, which may be within a WWID; its own directories, without such a file, are read its way.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, cast

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
    path = _path(host, place)
    host.files.ensure_directory(path.parent, 0o700, parents_mode=0o700)
    said = {"kind": "fc-name", "version": 1, "directory": str(place), "wwids": wanted.wwids}
    host.files.write(path, json.dumps(said).encode() + b"\n", 0o600, durable=True)


def read(host: Host, place: Path) -> FibreChannelSource:
    """Say whose a directory is; raises NotReconstructible."""
    return noted(host, place) or of_directory(place.name)


def noted(host: Host, place: Path) -> FibreChannelSource | None:
    """Say whose a directory is, if that was written down."""
    data = host.files.read(_path(host, place))
    try:
        said: object = json.loads(data) if data else None
    except (ValueError, RecursionError):  # damaged: the name is what is left
        return None
    wwids = cast("dict[str, object]", said).get("wwids") if isinstance(said, dict) else None
    if not isinstance(wwids, list):
        return None
    return FibreChannelSource(wwids=tuple(map(str, cast("list[object]", wwids))))


def remove(host: Host, place: Path) -> None:
    """Forget it: the directory is gone."""
    host.files.remove_file(_path(host, place), durable=True)


def _path(host: Host, place: Path) -> Path:
    name = sha256(str(place.relative_to(host.paths.root)).encode()).hexdigest()
    return host.paths.state / "fc/names" / f"{name}.json"
