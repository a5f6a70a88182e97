"""Which volume of which driver lies in a place: all that is left to ask when it is to be taken away.

In this order: kubelet's own file, our record, the volume's unique name, and the mount table, which shows what a Pod's
mount is a copy of.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from volmgr_csi.driver.names import is_driver_name
from volmgr_csi.node import vol_data
from volmgr_csi.node.vol_data import VolData
from volmgr_csi.settings import NAME

if TYPE_CHECKING:
    from volmgr.plugin import Host
    from volmgr_csi.node.call_records import CallRecord
    from volmgr_csi.node.layout import Place


def identify(place: Place, record: CallRecord, volume: str, host: Host) -> VolData | None:
    """Say which volume it is, by whoever knows; None when nobody does."""
    return next((found for found in _opinions(place, record, volume, host) if found is not None), None)


def _opinions(place: Place, record: CallRecord, volume: str, host: Host) -> Iterator[VolData | None]:
    yield vol_data.read(host, place.data)
    yield record.of()
    yield of_name(volume)
    yield _of_mount(place.path, host)


def of_name(volume: str) -> VolData | None:
    """Read a unique name; that of an inline volume names its Pod only."""
    driver, caret, handle = volume.removeprefix(f"{NAME}/").partition("^")
    return VolData(driver=driver, handle=handle) if caret and handle and is_driver_name(driver) else None


def _of_mount(path: Path, host: Host) -> VolData | None:
    """Find the node's mount that a Pod's is a copy of."""
    mine = host.mounts.entry(path)
    staged = host.mounts.below(host.paths.plugin(NAME)) if mine is not None else ()
    for entry in staged:
        if mine is not None and (entry.device, entry.root) == (mine.device, mine.root) and entry.target != path:
            found = vol_data.read(host, entry.target.parent)
            if found is not None:
                return found
    return None
