"""Which driver a volume of `csi` is of that was found on disk: kubelet's own file beside it says so.

Source: `behaviours.md` §4.11, which is `pkg/volume/csi` of kubelet 1.37.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import msgspec

from volmgr.errors import OperationError
from volmgr.model.names import CSI
from volmgr.model.volume import VolumeMode

if TYPE_CHECKING:
    from pathlib import Path

    from volmgr.host.interface import Host
    from volmgr.requests import Found

VOL_DATA = "vol_data.json"
LIMIT = 1 << 20
"""Bytes; no such file is longer."""


def found_driver(found: Found, host: Host) -> str:
    """Name the driver; empty for volumes of other plugins, and where the file is missing or damaged."""
    if found.plugin != CSI:
        return ""
    try:
        said: object = msgspec.json.decode(host.files.read(_file(found, host), LIMIT) or b"")
    except (OperationError, msgspec.DecodeError, RecursionError):
        return ""
    name = cast("dict[str, object]", said).get("driverName") if isinstance(said, dict) else None
    return name if isinstance(name, str) else ""


def _file(found: Found, host: Host) -> Path:
    if found.mode is VolumeMode.BLOCK:
        return host.paths.block_maps(CSI) / found.spec_name / "data" / VOL_DATA
    return found.path / VOL_DATA
