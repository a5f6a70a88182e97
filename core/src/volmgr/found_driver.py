"""Which driver a volume of `csi` is of that was found on disk, and which are staged: kubelet's own files say so.

Source: `behaviours.md` §4.11, which is `pkg/volume/csi` of kubelet 1.37.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import msgspec

from volmgr.errors import OperationError
from volmgr.model.names import CSI
from volmgr.model.volume import VolumeMode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from volmgr.host.interface import Host
    from volmgr.requests import Found

VOL_DATA = "vol_data.json"
_DRIVER, _HANDLE = "driverName", "volumeHandle"
LIMIT = 1 << 20
"""Bytes; no such file is longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A volume that a driver was asked to make ready for the node; `target` is where the node has it."""

    driver: str
    handle: str
    spec_name: str
    mode: VolumeMode
    target: Path


def found_driver(found: Found, host: Host) -> str:
    """Name the driver; empty for volumes of other plugins, and where the file is missing or damaged."""
    return _said(_file(found, host), host).get(_DRIVER, "") if found.plugin == CSI else ""


def staged_volumes(host: Host) -> Iterator[Staged]:
    """Give every volume that is staged, whether a Pod has it or not; a device that some Pod's map is made of is not."""
    top, maps = host.paths.plugin(CSI), host.paths.block_maps(CSI)
    for directory in (top / driver / name for driver in _names(top, host) for name in _names(top / driver, host)):
        if directory.parent != maps:
            said, target = _said(directory / VOL_DATA, host), directory / "globalmount"
            yield from _staged(said, directory.name, VolumeMode.FILESYSTEM, target)
    for name in _names(maps, host):
        target = maps / name / "dev"
        if host.files.info(target) is not None and not _names(target, host):
            yield from _staged(_said(maps / name / "data" / VOL_DATA, host), name, VolumeMode.BLOCK, target)


def _staged(said: Mapping[str, str], spec_name: str, mode: VolumeMode, target: Path) -> Iterator[Staged]:
    driver, handle = said.get(_DRIVER, ""), said.get(_HANDLE, "")
    if driver and handle:
        yield Staged(driver=driver, handle=handle, spec_name=spec_name, mode=mode, target=target)


def _names(path: Path, host: Host) -> tuple[str, ...]:
    with suppress(OperationError):  # a file, or a link, in its place
        return host.files.names(path)
    return ()


def _said(path: Path, host: Host) -> Mapping[str, str]:
    """Read a file; one that is missing or damaged says nothing."""
    try:
        said: object = msgspec.json.decode(host.files.read(path, LIMIT) or b"")
    except (OperationError, msgspec.DecodeError, RecursionError):
        return {}
    fields = cast("dict[str, object]", said) if isinstance(said, dict) else {}
    return {key: value for key, value in fields.items() if isinstance(value, str)}


def _file(found: Found, host: Host) -> Path:
    if found.mode is VolumeMode.BLOCK:
        return host.paths.block_maps(CSI) / found.spec_name / "data" / VOL_DATA
    return found.path / VOL_DATA
