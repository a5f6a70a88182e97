"""emptyDir: a directory that lives as long as its Pod, on disk, in memory or on huge pages.

Behaviour: `pkg/volume/emptydir` of kubelet 1.37, with its paths, modes, messages and ready marker. The work is done by
the host's `empty_dirs`, which other types build on too.
"""

from __future__ import annotations

from dataclasses import dataclass

from volmgr.plugin import (
    Applies,
    Facets,
    Found,
    Handles,
    Host,
    Measurable,
    Measure,
    Measured,
    Mount,
    Mounted,
    NotOurs,
    Objects,
    Pod,
    PodDirectory,
    Quantity,
    Reconstructed,
    SpecError,
    Unmount,
    Unmounted,
    VolumePlugin,
    VolumeSpec,
    Where,
    check_medium,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyDirSource:
    """`emptyDir` of a Pod volume: where it lives, and how much it may hold."""

    medium: str = ""
    size_limit: Quantity | None = None


class EmptyDir(VolumePlugin[EmptyDirSource], Measurable):
    """Give a Pod an empty directory of its own, and delete it with the Pod."""

    name = "kubernetes.io/empty-dir"
    api_version = 1
    handles = (Handles("emptyDir", where=Where.POD, source=EmptyDirSource),)

    def facets(self, spec: VolumeSpec[EmptyDirSource], objects: Objects) -> Facets:
        del spec, objects
        return Facets(fs_group=Applies.PLUGIN)

    def check(self, spec: VolumeSpec[EmptyDirSource], pod: Pod | None) -> None:
        check_medium(spec.source.medium, pod)
        limit = spec.source.size_limit
        if limit is not None and limit.value < 0:
            raise SpecError(f"sizeLimit {limit} is negative; write how much it may hold, or leave it out")

    def mount(self, request: Mount[EmptyDirSource], host: Host) -> Mounted:
        source = request.spec.source
        wanted = PodDirectory(
            pod=request.pod,
            name=request.spec.name,
            target=request.target,
            medium=source.medium,
            size_limit=source.size_limit.to_int() if source.size_limit else 0,
            memory_limit=request.memory_limit,
            options=request.options,
            fs_group=request.fs_group,
        )
        host.empty_dirs.set_up(wanted, cancelled=request.cancelled, progress=request.progress)
        return Mounted()

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        host.empty_dirs.tear_down(request.pod_uid, request.spec_name, request.target)
        return Unmounted()

    def reconstruct(self, found: Found, host: Host) -> Reconstructed[EmptyDirSource]:
        if not host.empty_dirs.is_ready(found.pod_uid, found.spec_name) and host.files.names(found.path):
            # kubelet's marker proves that an emptyDir is managed; without it, its data may be anybody's.
            raise NotOurs(f"{found.path} holds data and has no ready marker")
        # The disk does not say which medium it was: like kubelet, `EmptyDir{}`; unmount looks at what is mounted.
        return Reconstructed(spec=VolumeSpec(name=found.spec_name, type="emptyDir", source=EmptyDirSource()))

    def measure(self, request: Measure, host: Host) -> Measured:
        usage = host.empty_dirs.measure(request.path, cancelled=request.cancelled, deadline=request.deadline)
        return Measured.of(usage)
