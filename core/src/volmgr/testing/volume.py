"""One volume of one Pod, with the requests that the core would make for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from volmgr.host.interface import Host
from volmgr.model.names import shared_volume_name
from volmgr.model.objects import ref_of
from volmgr.plugin import (
    Facets,
    Found,
    Measurable,
    Measure,
    Measured,
    Mount,
    Mounted,
    Object,
    ObjectMeta,
    ObjectRef,
    Objects,
    Pod,
    PodSpec,
    Reconstructed,
    Unmount,
    Unmounted,
    VolumePlugin,
    VolumeSpec,
)


def pod(name: str = "web", **spec: Any) -> Pod:  # noqa: ANN401 - fields of any type
    """Give a Pod whose UID is `uid-<name>`; `spec` are fields of its PodSpec."""
    return Pod(metadata=ObjectMeta(name=name, uid=f"uid-{name}"), spec=PodSpec(**spec))


def _leave_as_it_is(_host: Host) -> None:
    """Arrange nothing."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One volume for the contract suite: its source, its Pod, and what both need.

    `objects` are those that the source refers to, `settings` what the configuration says (instances of the type's
    settings class), `spec` further fields of VolumeSpec; `arrange` prepares a fresh host (a device, a program).
    """

    source: object
    pod: Pod = field(default_factory=pod)
    objects: tuple[Object, ...] = ()
    settings: tuple[object, ...] = ()
    spec: Mapping[str, Any] = field(default_factory=dict[str, Any])
    arrange: Callable[[Host], None] = _leave_as_it_is


@dataclass(frozen=True)
class Volume:
    """One volume: its type, its source, the Pod that uses it and the objects that the source refers to."""

    plugin: VolumePlugin[Any]
    source: object
    pod: Pod = field(default_factory=pod)
    name: str = "data"
    objects: Objects = field(default_factory=dict[ObjectRef, Object])
    spec_fields: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def of(cls, plugin: VolumePlugin[Any], sample: Sample) -> Self:
        """Give the volume of a sample."""
        objects = {ref_of(item): item for item in sample.objects}
        return cls(plugin, sample.source, sample.pod, objects=objects, spec_fields=sample.spec)

    @property
    def spec(self) -> VolumeSpec[Any]:
        """What the manifest wants."""
        spec: VolumeSpec[Any] = VolumeSpec(name=self.name, type=self.plugin.handles[0].field, source=self.source)
        return replace(spec, **self.spec_fields)

    @property
    def facets(self) -> Facets:
        """What the type says of this volume."""
        return self.plugin.facets(self.spec, self.objects)

    @property
    def unique_name(self) -> str:
        """The name under which the core knows the volume."""
        return self.name_of(self.spec)

    def name_of(self, spec: VolumeSpec[Any]) -> str:
        """Give the unique name of a volume of this type and Pod."""
        facets = self.plugin.facets(spec, self.objects)
        if facets.attach or facets.device:
            return shared_volume_name(self.plugin.name, self.plugin.volume_name(spec))
        return self.plugin.unique_name(spec, self.pod.uid)

    def target(self, host: Host) -> Path:
        """Give the directory that the volume has below its Pod's."""
        return host.paths.volume(self.pod.uid, self.plugin.name, self.name)

    def mount_request(self, host: Host, **changes: Any) -> Mount[Any]:  # noqa: ANN401 - fields of any type
        """Say what the core would ask for; `changes` are fields of Mount."""
        request: Mount[Any] = Mount(
            spec=self.spec, volume=self.unique_name, pod=self.pod, target=self.target(host), objects=self.objects
        )
        return replace(request, **changes)

    def mount(self, host: Host, **changes: Any) -> Mounted:  # noqa: ANN401 - fields of any type
        """Mount the volume for its Pod."""
        return self.plugin.mount(self.mount_request(host, **changes), host)

    def unmount_request(self, host: Host) -> Unmount:
        """Say what the core would ask for, which is no more than names."""
        return Unmount(volume=self.unique_name, pod_uid=self.pod.uid, spec_name=self.name, target=self.target(host))

    def unmount(self, host: Host) -> Unmounted:
        """Unmount the volume."""
        return self.plugin.unmount(self.unmount_request(host), host)

    def reconstruct(self, host: Host) -> Reconstructed[Any]:
        """Rebuild it from its directory."""
        found = Found(
            pod_uid=self.pod.uid,
            plugin=self.plugin.name,
            spec_name=self.name,
            path=self.target(host),
        )
        return self.plugin.reconstruct(found, host)

    def measure(self, host: Host, **changes: Any) -> Measured:  # noqa: ANN401 - fields of any type
        """Measure what the Pod's volume uses."""
        if not isinstance(self.plugin, Measurable):
            message = f"{self.plugin.name} is not Measurable"
            raise TypeError(message)
        request = Measure(volume=self.unique_name, pod_uid=self.pod.uid, path=self.target(host))
        return self.plugin.measure(replace(request, **changes), host)
