"""secret: the keys of a Secret as files in memory.

Behaviour: `pkg/volume/secret` of kubelet 1.37, with its messages; how files are written is the host's `atomic`.
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
    Secret,
    SpecError,
    VolumeSpec,
    Where,
    check_items,
    files_of,
    needed_object,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretSource:
    """`secret` of a Pod volume: which Secret, and which of its keys become which files."""

    secret_name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool = False


class SecretVolume(PayloadVolume[SecretSource]):
    """Give a Pod the keys of a Secret as files that are never written to a disk."""

    name = "kubernetes.io/secret"
    handles = (Handles("secret", where=Where.POD, source=SecretSource),)

    def volume_name(self, spec: VolumeSpec[SecretSource]) -> str:
        return spec.source.secret_name or spec.name

    def check(self, spec: VolumeSpec[SecretSource], pod: Pod | None) -> None:
        del pod
        if not spec.source.secret_name:
            raise SpecError("secret.secretName is missing; name the Secret")
        check_items(spec.source.items, spec.source.default_mode)

    def references(self, spec: VolumeSpec[SecretSource], pod: Pod) -> tuple[Reference, ...]:
        return (Reference(_ref(spec, pod), optional=spec.source.optional),)

    def _payload(self, request: Mount[SecretSource], host: Host) -> Payload:
        del host
        source, ref = request.spec.source, _ref(request.spec, request.pod)
        by = f"volume {request.spec.name}"
        found = needed_object(request.objects, ref, Secret, optional=source.optional, by=by)
        if found is None:
            return {}
        return files_of(found.data, source.items, default_mode=source.default_mode, optional=source.optional)


def _ref(spec: VolumeSpec[SecretSource], pod: Pod) -> ObjectRef:
    return ObjectRef("Secret", pod.metadata.namespace, spec.source.secret_name)
