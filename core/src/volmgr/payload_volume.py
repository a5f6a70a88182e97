"""The volume types whose files are made from objects: written at once into an emptyDir of the volume's own."""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Collection
from pathlib import Path
from typing import ClassVar, Generic, TypeVar, cast

from volmgr.errors import NotOurs, taken_back
from volmgr.host.atomic import is_own
from volmgr.host.empty_dirs import MEMORY, PodDirectory
from volmgr.host.interface import Host
from volmgr.model.payload import Payload, due_at, given_to, nested, widened
from volmgr.model.volume import Applies, Facets, VolumeSpec
from volmgr.requests import (
    Found,
    Measure,
    Measured,
    Mount,
    Mounted,
    Objects,
    Reconstructed,
    Unmount,
    Unmounted,
)
from volmgr.volume_plugin import Measurable, VolumePlugin

log = logging.getLogger("volmgr.payload")

S = TypeVar("S")

_NESTED_MODE = 0o755


class PayloadVolume(VolumePlugin[S], Measurable, Generic[S]):
    """Derive from it, and say in `_payload` which files the volume has; the rest is the same for all such types."""

    medium: ClassVar[str] = MEMORY
    """The medium of the emptyDir that holds the files; empty is the disk."""

    def _payload(self, request: Mount[S], host: Host) -> Payload:
        """Give the volume's files; raises SpecError, or OperationError for what may be mended later."""
        raise NotImplementedError

    def facets(self, spec: VolumeSpec[S], objects: Objects) -> Facets:
        """Mounted again whenever an object changes; the group is the type's own affair."""
        del spec, objects
        return Facets(remount=True, fs_group=Applies.PLUGIN, read_only=True)

    def mount(self, request: Mount[S], host: Host) -> Mounted:
        """Write the files; the first time that fails takes back what is only ours, later the old files stay."""
        payload = self._payload(request, host)
        directory = PodDirectory(
            pod=request.pod,
            name=request.spec.name,
            target=request.target,
            medium=self.medium,
            memory_limit=request.memory_limit,
            options=request.options,
            wrapped=True,
        )
        made = host.empty_dirs.set_up(directory, cancelled=request.cancelled, progress=request.progress)
        keeps = not made and (request.remount or host.atomic.is_published(request.target))

        def undo() -> None:
            if not keeps and not _foreign(request.target, host, _mount_points(request, payload)):
                host.empty_dirs.tear_down(request.pod.uid, request.spec.name, request.target, wrapped=True)

        with taken_back(undo, f"mounting {request.target}"):
            self._write(request, payload, host)
        return Mounted(due_at=due_at(payload))

    def _write(self, request: Mount[S], payload: Payload, host: Host) -> None:
        group = request.fs_group

        def give(_new: Path) -> None:
            """Give the whole volume to the group: links and the volume itself are new, too."""
            if group is not None:
                _note_widened(request, payload)
                host.ownership.apply(
                    request.target, group, read_only=True, cancelled=request.cancelled, progress=request.progress
                )

        for directory in _mount_points(request, payload):
            host.files.ensure_directory(request.target / directory, _NESTED_MODE)
        host.atomic.write(request.target, given_to(payload, group), before_publish=give)

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        """Take the files and what holds them away."""
        host.empty_dirs.tear_down(request.pod_uid, request.spec_name, request.target, wrapped=True)
        return Unmounted()

    def reconstruct(self, found: Found, host: Host) -> Reconstructed[S]:
        """Give a volume without content: which objects it was made of, the disk does not say."""
        if not host.empty_dirs.is_ready(found.pod_uid, found.spec_name, wrapped=True):
            foreign = _foreign(found.path, host)
            if foreign:
                raise NotOurs(f"{found.path} holds {foreign[0]!r} and has no ready marker")
        handle = self.handles[0]
        source = cast("S", handle.source() if handle.source else None)
        return Reconstructed(spec=VolumeSpec(name=found.spec_name, type=handle.field, source=source))

    def measure(self, request: Measure, host: Host) -> Measured:
        """Measure what the files use."""
        usage = host.empty_dirs.measure(request.path, cancelled=request.cancelled, deadline=request.deadline)
        return Measured.of(usage)


def _foreign(path: Path, host: Host, made: Collection[str] = ()) -> list[str]:
    """Name what is neither of the scheme nor made for a mount: a container may have put it there."""
    return [name for name, target in host.files.links(path).items() if not is_own(name, target) and name not in made]


def _mount_points(request: Mount[S], payload: Payload) -> list[str]:
    """Give the directories to make for what is mounted inside; where the volume has files, it is theirs to say."""
    found: set[str] = set()
    for container in request.pod.all_containers():
        mounts = [(each.name, each.mount_path, each.sub_path or each.sub_path_expr) for each in container.volume_mounts]
        found |= nested(mounts, request.spec.name)
    tops = {posixpath.normpath(path).partition("/")[0] for path in payload}
    parts = [tuple(path.split("/")) for path in found]
    return sorted(
        "/".join(path[:depth])
        for path in parts
        if path[0] not in tops and not path[0].startswith("..")
        for depth in range(1, len(path) + 1)
    )


def _note_widened(request: Mount[S], payload: Payload) -> None:
    files = widened(payload)
    if files and not request.remount:
        log.info(
            "pod %s: fsGroup %s lets owner and group read %s of volume %s, whose mode was narrower",
            request.pod.key,
            request.fs_group,
            ", ".join(files),
            request.spec.name,
        )
