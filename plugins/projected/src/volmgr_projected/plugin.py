"""projected: the files of several sources in one volume in memory.

Behaviour: `pkg/volume/projected` of kubelet 1.37, with its messages. What each source gives is in `projection`.
"""

from __future__ import annotations

from volmgr.plugin import Handles, Host, Mount, Payload, PayloadVolume, Pod, Reference, VolumeSpec, Where
from volmgr_projected.projection import Projection, check_sources, references_of
from volmgr_projected.sources import ProjectedSource


class Projected(PayloadVolume[ProjectedSource]):
    """Give a Pod Secrets, ConfigMaps, itself, tokens and certificates to trust in one directory."""

    name = "kubernetes.io/projected"
    api_version = 1
    handles = (Handles("projected", where=Where.POD, source=ProjectedSource),)

    def check(self, spec: VolumeSpec[ProjectedSource], pod: Pod | None) -> None:
        check_sources(spec, pod)

    def references(self, spec: VolumeSpec[ProjectedSource], pod: Pod) -> tuple[Reference, ...]:
        return tuple(references_of(spec, pod))

    def _payload(self, request: Mount[ProjectedSource], host: Host) -> Payload:
        return Projection(request, host).payload()
