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
    SpecError,
    VolumeSpec,
    Where,
    check_items,
    object_files,
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
    api_version = 1
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
        spec = request.spec
        return object_files(
            request.objects,
            _ref(spec, request.pod),
            spec.source.items,
            default_mode=spec.source.default_mode,
            optional=spec.source.optional,
            by=f"volume {spec.name}",
        )


def _ref(spec: VolumeSpec[SecretSource], pod: Pod) -> ObjectRef:
    return ObjectRef("Secret", pod.metadata.namespace, spec.source.secret_name)
