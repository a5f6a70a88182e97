"""configMap: the keys of a ConfigMap as files on disk.

Behaviour: `pkg/volume/configmap` of kubelet 1.37, with its messages; how files are written is the host's `atomic`.
"""

from __future__ import annotations

from dataclasses import dataclass

from volmgr.plugin import (
    MISSING_CONFIG_KEY,
    ConfigMap,
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
    files_of,
    keys_of,
    needed_object,
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
        source, ref = request.spec.source, _ref(request.spec, request.pod)
        by = f"volume {request.spec.name}"
        found = needed_object(request.objects, ref, ConfigMap, optional=source.optional, by=by)
        if found is None:
            return {}
        return files_of(
            keys_of(found),
            source.items,
            default_mode=source.default_mode,
            optional=source.optional,
            missing=MISSING_CONFIG_KEY,
        )


def _ref(spec: VolumeSpec[ConfigMapSource], pod: Pod) -> ObjectRef:
    return ObjectRef("ConfigMap", pod.metadata.namespace, spec.source.name)
