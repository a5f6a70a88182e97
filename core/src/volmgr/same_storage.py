"""Which PersistentVolumes are one to what stores them, also where one is written as an in-tree type. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volmgr.errors import SpecError
from volmgr.in_tree import MIGRATED
from volmgr.model.driver_sources import CSI_FIELD

if TYPE_CHECKING:
    from volmgr.model.volume import PersistentVolume


def is_same_storage(one: PersistentVolume, other: PersistentVolume) -> bool:
    """Say whether two volumes are one to what stores them: what is done to either is done to both."""
    return _names_the_same(one, other) or _names_the_same(_as_csi(one), _as_csi(other))


def _names_the_same(one: PersistentVolume, other: PersistentVolume) -> bool:
    if one.type != other.type:
        return False
    keys = ("driver", "volumeHandle") if one.type == CSI_FIELD else (*one.source, *other.source)
    return all(one.source.get(key) == other.source.get(key) for key in keys)


def _as_csi(pv: PersistentVolume) -> PersistentVolume:
    """Give a volume of an in-tree type as its driver knows it, whoever serves it here; one that is wrong as it is."""
    if pv.type not in MIGRATED:
        return pv
    from volmgr import migration

    try:
        return migration.persistent_csi(pv)
    except SpecError:
        return pv
