"""What the node service of a driver is asked; imports protobuf. Pure.

Source: `behaviours.md` §4.11, which is `csi_client.go` of kubelet 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from volmgr.plugin import context_option
from volmgr_csi.driver.volume_capability import access_of, capability
from volmgr_csi.v1 import csi_pb2 as csi

if TYPE_CHECKING:
    from volmgr.plugin import CsiSource, VolumeSpec
    from volmgr_csi.driver.drivers import Abilities

_NO_TEXTS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How a volume is used: what a driver that can is to mount with."""

    label: str = ""
    """SELinux; empty: none."""
    group: int | None = None
    """The Pod's fsGroup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What comes from elsewhere: of the attachment, of the Pod, of Secrets."""

    context: Mapping[str, str] = field(default_factory=lambda: _NO_TEXTS)
    attributes: Mapping[str, str] = field(default_factory=lambda: _NO_TEXTS)
    secrets: Mapping[str, str] = field(default_factory=lambda: _NO_TEXTS, repr=False)


def capability_of(spec: VolumeSpec[CsiSource], abilities: Abilities, use: Use | None = None) -> csi.VolumeCapability:
    """Say how a volume is used: by its first access mode, as kubelet does, its mount options in their order."""
    wanted = use or Use()
    access = access_of(spec.access_modes[:1], multi_writer=abilities.single_node_multi_writer)
    options = spec.pv.mount_options if spec.pv is not None else ()
    flags = (*options, *context_option(wanted.label))
    group = str(wanted.group) if abilities.mount_group and wanted.group is not None else ""
    return capability(spec.mode, access, fs_type=spec.source.fs_type, flags=flags, group=group)


def staging(
    spec: VolumeSpec[CsiSource], abilities: Abilities, use: Use, path: str, given: Given
) -> csi.NodeStageVolumeRequest:
    """Ask for a volume on the node."""
    return csi.NodeStageVolumeRequest(
        volume_id=spec.source.volume_handle,
        publish_context=given.context,
        staging_target_path=path,
        volume_capability=capability_of(spec, abilities, use),
        secrets=given.secrets,
        volume_context=spec.source.volume_attributes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """Where to, as the driver sees it; `staged` is empty where nothing is staged."""

    target: str
    staged: str = ""


def publishing(
    handle: str, spec: VolumeSpec[CsiSource], abilities: Abilities, use: Use, paths: Paths, given: Given
) -> csi.NodePublishVolumeRequest:
    """Ask for a volume at a Pod's path."""
    return csi.NodePublishVolumeRequest(
        volume_id=handle,
        publish_context=given.context,
        staging_target_path=paths.staged,
        target_path=paths.target,
        volume_capability=capability_of(spec, abilities, use),
        readonly=spec.read_only,
        secrets=given.secrets,
        volume_context={**spec.source.volume_attributes, **given.attributes},
    )


def expanding(
    spec: VolumeSpec[CsiSource], abilities: Abilities, size: int, paths: Paths, secrets: Mapping[str, str]
) -> csi.NodeExpandVolumeRequest:
    """Ask for a volume to use at least `size` bytes."""
    return csi.NodeExpandVolumeRequest(
        volume_id=spec.source.volume_handle,
        volume_path=paths.target,
        capacity_range=csi.CapacityRange(required_bytes=size),
        staging_target_path=paths.staged,
        volume_capability=capability_of(spec, abilities),
        secrets=secrets,
    )
