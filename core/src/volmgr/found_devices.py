"""Node's mounts that are on disk, as their types find them, and whose volumes they are: some class's, or nobody's."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from volmgr.errors import VolmgrError
from volmgr.model.names import kubelet_plugin, shared_volume_name
from volmgr.plugin import DeviceMountable, FoundDevice

if TYPE_CHECKING:
    from volmgr.host.interface import Host
    from volmgr.model.volume import Facets, VolumeSpec
    from volmgr.plugins import Plugins
    from volmgr.volume_type import VolumeType

log = logging.getLogger("volmgr.reconstruct")


@dataclass(frozen=True, slots=True)
class Device:
    """A node's mount: what its `finder` says of it, who serves the volume, and its unique name if that one has it."""

    finder: VolumeType
    found: FoundDevice[Any]
    owner: VolumeType | None
    name: str


def found_devices(host: Host, plugins: Plugins) -> Iterator[Device]:
    """Give the node's mounts that types find on disk; what goes wrong with one type keeps no other waiting."""
    for finder in tuple(plugins.types.values()):  # drivers come and go on another thread
        for found in _devices_of(finder, host):
            owner = plugins.owner_of(found.spec.type, found.spec.driver) if found.spec is not None else None
            yield Device(finder, found, owner, _name_of(found, owner, host))


def kept_devices(host: Host, plugins: Plugins) -> tuple[tuple[str, str], ...]:
    """Give the paths of node's mounts that nobody takes away, each with the reason."""
    return tuple((str(each.found.target), why) for each in found_devices(host, plugins) if (why := _why_kept(each)))


def facets_of(volume_type: VolumeType | None, spec: VolumeSpec[Any] | None) -> Facets | None:
    """Say what a volume that was found needs; None where nobody can say."""
    if volume_type is None or spec is None:
        return None
    try:
        facets: Facets = volume_type.ask("facets", spec, {})
    except VolmgrError:
        return None
    return facets


def _devices_of(volume_type: VolumeType, host: Host) -> tuple[FoundDevice[Any], ...]:
    if not isinstance(volume_type.plugin, DeviceMountable):
        return ()
    try:
        found: tuple[FoundDevice[Any], ...] = volume_type.ask("devices", host)
    except VolmgrError as error:
        log.warning("the node's mounts of %s are not looked through: %s", volume_type.name, error)
        return ()
    return found


def _name_of(found: FoundDevice[Any], owner: VolumeType | None, host: Host) -> str:
    """Give the unique name of a volume whose device was found; empty where its class would not have it there."""
    spec, facets = found.spec, facets_of(owner, found.spec)
    if owner is None or spec is None or facets is None or not facets.device:
        return ""
    if not isinstance(spec.source, owner.source_of(spec.type, spec.driver) or object):
        return ""  # it reads another source than who found it
    try:
        if owner.ask("device_target", spec, host) != found.target:
            return ""
        return shared_volume_name(kubelet_plugin(owner.name, spec.type, spec.driver), owner.ask("volume_name", spec))
    except VolmgrError:
        return ""


def _why_kept(device: Device) -> str:
    spec, owner = device.found.spec, device.owner
    if spec is None:
        return device.found.problem
    if device.name or owner is device.finder:
        return ""
    serves = (
        f"is served by {owner.origin}, which does not have it there; unmount it by hand if nothing uses it"
        if owner is not None
        else "is served by nobody; start or install it"
    )
    return f"driver {spec.driver}, of which it is, {serves}"
