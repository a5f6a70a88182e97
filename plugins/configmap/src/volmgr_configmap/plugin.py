"""configMap: the keys of a ConfigMap as files on disk.

Behaviour: `pkg/volume/configmap` of kubelet 1.37, with its messages; how files are written is the host's `atomic`.
"""

from __future__ import annotations

from dataclasses import dataclass

from volmgr.plugin import (
    Handles,
    Host,
    KeyToPath,
    Mount,
    ObjectRef,
    Payload,
    PayloadVolume,
    Pod,
    Reference,
    SpecError,
    VolumeSpec,
    Where,
    check_items,
    object_files,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMapSource:
    """`configMap` of a Pod volume: which ConfigMap, and which of its keys become which files."""

    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool = False


class ConfigMapVolume(PayloadVolume[ConfigMapSource]):
    """Give a Pod the keys of a ConfigMap as files."""

    name = "kubernetes.io/configmap"
    api_version = 1
    handles = (Handles("configMap", where=Where.POD, source=ConfigMapSource),)
    medium = ""

    def volume_name(self, spec: VolumeSpec[ConfigMapSource]) -> str:
        return f"{spec.name}/{spec.source.name}"

    def check(self, spec: VolumeSpec[ConfigMapSource], pod: Pod | None) -> None:
        del pod
        if not spec.source.name:
            raise SpecError("configMap.name is missing; name the ConfigMap")
        check_items(spec.source.items, spec.source.default_mode)

    def references(self, spec: VolumeSpec[ConfigMapSource], pod: Pod) -> tuple[Reference, ...]:
        return (Reference(_ref(spec, pod), optional=spec.source.optional),)

    def _payload(self, request: Mount[ConfigMapSource], host: Host) -> Payload:
        del host
        spec = request.spec
        return object_files(
            request.objects,
            _ref(spec, request.pod),
            spec.source.items,
            default_mode=spec.source.default_mode,
            optional=spec.source.optional,
            by=f"volume {spec.name}",
        )


def _ref(spec: VolumeSpec[ConfigMapSource], pod: Pod) -> ObjectRef:
    return ObjectRef("ConfigMap", pod.metadata.namespace, spec.source.name)
