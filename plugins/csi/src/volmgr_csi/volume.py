"""csi as a volume type: what one volume needs, and which calls of its driver make and unmake it.

Behaviour: `behaviours.md` §4.11, which is `pkg/volume/csi` of kubelet 1.37.
"""

from __future__ import annotations

from volmgr.plugin import (
    CSI_FIELD,
    CsiSource,
    Handles,
    VolumePlugin,
    VolumeSpec,
    csi_volume_name,
)
from volmgr_csi.settings import NAME


class Csi(VolumePlugin[CsiSource]):
    """Volumes of drivers that are processes of their own, each behind a socket."""

    name = NAME
    handles = (Handles(CSI_FIELD, source=CsiSource),)
    supports_mount_options = True
    api_version = 1

    def volume_name(self, spec: VolumeSpec[CsiSource]) -> str:
        return csi_volume_name(spec.source.driver, spec.source.volume_handle)

    def endpoint(self, spec: VolumeSpec[CsiSource]) -> str:
        return spec.source.driver
