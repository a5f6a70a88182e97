"""downwardAPI: what a Pod says of itself, as files in memory.

Behaviour: `pkg/volume/downwardapi` of kubelet 1.37; what the files say is `volmgr.model.downward`.
"""

from __future__ import annotations

from dataclasses import dataclass

from volmgr.plugin import (
    DownwardFile,
    Handles,
    Host,
    Mount,
    ObjectRef,
    Payload,
    PayloadVolume,
    Pod,
    Reference,
    VolumeSpec,
    Where,
    allocatable,
    capacity,
    check_downward,
    downward_files,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DownwardApiSource:
    """`downwardAPI` of a Pod volume: which file shows what."""

    items: tuple[DownwardFile, ...] = ()
    default_mode: int | None = None


class DownwardApi(PayloadVolume[DownwardApiSource]):
    """Show a Pod its own name, labels, annotations and resources."""

    name = "kubernetes.io/downward-api"
    api_version = 1
    handles = (Handles("downwardAPI", where=Where.POD, source=DownwardApiSource),)

    def check(self, spec: VolumeSpec[DownwardApiSource], pod: Pod | None) -> None:
        check_downward(spec.source.items, pod, spec.source.default_mode)

    def references(self, spec: VolumeSpec[DownwardApiSource], pod: Pod) -> tuple[Reference, ...]:
        del spec
        return (Reference(ObjectRef("Pod", pod.metadata.namespace, pod.metadata.name)),)

    def _payload(self, request: Mount[DownwardApiSource], host: Host) -> Payload:
        source = request.spec.source
        available = allocatable(request.node, capacity(host))
        return downward_files(source.items, request.pod, available, source.default_mode)
