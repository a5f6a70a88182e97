"""The identity service."""

from __future__ import annotations

from google.protobuf.wrappers_pb2 import BoolValue

from tests.csi.fault_driver.profile import CONSTRAINTS, CONTROLLER_SERVICE, Profile
from volmgr_csi.v1 import csi_pb2 as csi


class Identity:
    """Who the driver is, and what it consists of."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def info(self, _request: csi.GetPluginInfoRequest) -> csi.GetPluginInfoResponse:
        return csi.GetPluginInfoResponse(name=self._profile.name, vendor_version="1.0.0")

    def capabilities(self, _request: csi.GetPluginCapabilitiesRequest) -> csi.GetPluginCapabilitiesResponse:
        kind, profile = csi.PluginCapability, self._profile
        services = [CONTROLLER_SERVICE] if profile.controller else []
        services += [CONSTRAINTS] if profile.topology else []
        all_of_it = [kind(service=kind.Service(type=name)) for name in services]
        if profile.expansion:
            all_of_it.append(kind(volume_expansion=kind.VolumeExpansion(type=profile.expansion)))
        return csi.GetPluginCapabilitiesResponse(capabilities=all_of_it)

    def probe(self, _request: csi.ProbeRequest) -> csi.ProbeResponse:
        return csi.ProbeResponse(ready=BoolValue(value=True))
