"""StorageClasses of in-tree types, as the csi drivers that took their places read them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volmgr.errors import SpecError
from volmgr.in_tree import MIGRATED

if TYPE_CHECKING:
    from volmgr.model.objects import StorageClass

_PROVISIONERS = frozenset(MIGRATED.values())


def as_its_driver_reads(storage_class: StorageClass) -> StorageClass:
    """Give a class with the name of its csi driver and what that reads; any other class, or a wrong one, as it is.

    `volmgr check` says what is wrong with it; nobody makes a volume for it.
    """
    if storage_class.provisioner not in _PROVISIONERS:
        return storage_class
    from volmgr import migration

    try:
        return migration.class_csi(storage_class)
    except SpecError:
        return storage_class
