"""Which volumes a promise is about: those of types that can do something, or that have something."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pytest

from volmgr.plugin import Applies, Attachable, DeviceMountable, Expandable, Measurable, PayloadVolume, VolumePlugin
from volmgr.testing.volume import Volume

if TYPE_CHECKING:
    from volmgr.testing.contract.subject import Subject

F = TypeVar("F", bound=Callable[..., None])

MARK = "volmgr_needs"
"""Name of the marker that says which ability a promise is about."""


class Ability(StrEnum):
    """What a volume can do, or has; the value completes the sentence "this is not promised by volumes that …"."""

    ATTACH = "are not attached"
    DEVICE = "are not mounted once per node"
    BLOCK = "are not used as devices"
    EXPAND = "cannot grow"
    MEASURE = "cannot be measured"
    RECONSTRUCT = "cannot be rebuilt from disk"
    FOUND = "leave nothing on the node by which their devices are found"
    DIRECTORY = "have no directory of their own"
    GROUP = "do not give their files to a group themselves"
    PAYLOAD = "are not made of objects"


def _is_rebuilt(volume: Volume) -> bool:
    reconstruct = type(volume.plugin).reconstruct
    return volume.facets.directory and reconstruct is not VolumePlugin[Any].reconstruct


def _is_found(volume: Volume) -> bool:
    plugin = volume.plugin
    finds = isinstance(plugin, DeviceMountable) and type(plugin).devices is not DeviceMountable[Any].devices
    return finds and volume.has_device


_TESTS: dict[Ability, Callable[[Volume], bool]] = {
    Ability.ATTACH: lambda volume: isinstance(volume.plugin, Attachable) and volume.facets.attach,
    Ability.DEVICE: lambda volume: volume.has_device,
    Ability.BLOCK: lambda volume: volume.is_block,
    Ability.EXPAND: lambda volume: isinstance(volume.plugin, Expandable) and volume.facets.expand,
    Ability.MEASURE: lambda volume: isinstance(volume.plugin, Measurable) and not volume.is_block,
    Ability.RECONSTRUCT: _is_rebuilt,
    Ability.FOUND: _is_found,
    Ability.DIRECTORY: lambda volume: volume.facets.directory and not volume.is_block,
    Ability.GROUP: lambda volume: volume.facets.fs_group is Applies.PLUGIN and not volume.is_block,
    Ability.PAYLOAD: lambda volume: isinstance(volume.plugin, PayloadVolume),
}


def can(volume: Volume, ability: Ability) -> bool:
    """Say whether a volume has an ability."""
    return _TESTS[ability](volume)


def needs(ability: Ability) -> Callable[[F], F]:
    """Let a promise be about volumes with an ability alone; others have nothing to break it with."""

    def limit(promise: F) -> F:
        @wraps(promise)
        def limited(subject: Subject, **others: object) -> None:
            if can(subject.volume, ability):
                promise(subject, **others)

        return cast("F", pytest.mark.volmgr_needs(ability)(limited))

    return limit
