"""Performs operations: writes ahead, calls one hook of one type, and says how it went. No state, no threads."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from volmgr import blockmap
from volmgr.actual import ActualVolume, Facts, settle
from volmgr.admission import Held
from volmgr.desired import DesiredMount, DesiredVolume
from volmgr.errors import OperationError, PluginError, SpecError, TransientError, UncertainError, VolmgrError
from volmgr.journal import Journal, MountRecord, SpecRecord, VolumeRecord
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import Node, Object
from volmgr.model.volume import Applies, Presence, VolumeMode
from volmgr.operations import Ending, Operation, Verb
from volmgr.plugin import (
    Attach,
    Detach,
    Expand,
    Mount,
    MountDevice,
    Mounted,
    Unmount,
    UnmountDevice,
    WaitForAttach,
)
from volmgr.tidy import clear_binds
from volmgr.volume_type import VolumeType

if TYPE_CHECKING:
    from volmgr.host.interface import Host

log = logging.getLogger("volmgr.executor")


def _silent(_text: str) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """An admitted operation with everything it needs; `allowed` is its time in seconds."""

    operation: Operation
    type: VolumeType
    held: Held
    desired: DesiredVolume | None = None
    actual: ActualVolume | None = None
    objects: Mapping[ObjectRef, Object] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    node: Node | None = None
    node_name: str = ""
    attached_path: str = ""
    """What the node status says of an attached volume."""
    others_detach: bool = False
    """A controller takes the attachment back, so nothing is left to remember when the device is unmounted."""
    allowed: float = 120.0
    cancel: threading.Event = field(default_factory=threading.Event, repr=False)
    progress: Callable[[str], None] = field(default=_silent, repr=False)

    @property
    def mount(self) -> DesiredMount:
        """The wish of the Pod that a mount is for."""
        assert self.desired is not None  # noqa: S101 - a mount is only admitted for a desired volume
        return self.desired.mounts[self.operation.pod_uid]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a job ended. `final`: trying again is of no use until its manifest changes."""

    job: Job
    ending: Ending
    facts: Facts
    error: str = ""
    waits_for: str = ""
    final: bool = False
    seconds: float = 0.0


class Executor:
    """Performs jobs on a host."""

    def __init__(
        self,
        host: Host,
        wall: Callable[[], float] = time.time,
        mount_options: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    ) -> None:
        """Use the host's services; `wall` gives Unix time in seconds, `mount_options` are those of inline volumes."""
        self._host = host
        self._mount_options = mount_options
        self._wall = wall
        self._journal = Journal(host)

    def perform(self, job: Job) -> Result:
        """Perform a job and say how it went; never raises an Exception."""
        started = time.monotonic()
        result = self._classified(job)
        if result.ending in {Ending.FAILED, Ending.UNCHANGED} and job.operation.verb.is_making:
            self._take_back(job, result)
        return replace(result, seconds=time.monotonic() - started)

    def _classified(self, job: Job) -> Result:
        facts = _facts(job)
        making = job.operation.verb.is_making
        try:
            return Result(job=job, ending=Ending.DONE, facts=self._act(job, facts))
        except TransientError as error:
            return Result(
                job=job, ending=Ending.UNCHANGED, facts=facts, error=str(error), waits_for=error.waits_for or str(error)
            )
        except (SpecError, PluginError) as error:
            ending = Ending.UNCHANGED if making else Ending.UNCERTAIN
            final = making and isinstance(error, SpecError)
            return Result(job=job, ending=ending, facts=facts, error=str(error), final=final)
        except OperationError as error:
            return Result(job=job, ending=Ending.FAILED, facts=facts, error=str(error))
        except UncertainError as error:
            return Result(job=job, ending=Ending.UNCERTAIN, facts=facts, error=str(error))
        except (Exception, SystemExit) as error:  # a plugin's bug: whatever it left behind is unknown
            log.exception("%s of %s: unexpected error", job.operation.verb, job.operation.volume)
            text = f"unexpected {type(error).__name__}: {error} (a bug of {job.type.origin}; the log has its traceback)"
            return Result(job=job, ending=Ending.UNCERTAIN, facts=facts, error=text)

    def _take_back(self, job: Job, result: Result) -> None:
        """Leave no record of a making that left nothing, or it would be unmade after the next start."""
        name, uid = job.operation.volume, job.operation.pod_uid
        left = settle(job.actual, job.operation, result.ending, result.facts)
        try:
            match job.operation.verb:
                case Verb.MOUNT if left is None or uid not in left.mounts:
                    self._journal.forget_mount(uid, job.mount.spec.name)
                case Verb.ATTACH | Verb.MOUNT_DEVICE if left is None:
                    self._journal.forget_volume(name)
                case Verb.ATTACH | Verb.MOUNT_DEVICE if left is not None:
                    self._record_volume(job, attached=left.attached, device=left.device)
                case _:
                    pass
        except OperationError:  # then the record says uncertain, which is safe
            log.exception("%s of %s failed, and its record cannot be taken back", job.operation.verb, name)

    def _act(self, job: Job, facts: Facts) -> Facts:  # noqa: PLR0911 - one per verb
        match job.operation.verb:
            case Verb.ATTACH:
                return self._attach(job, facts)
            case Verb.VERIFY_ATTACHED:
                return replace(facts, device_path=job.attached_path)
            case Verb.WAIT_FOR_ATTACH:
                return self._wait_for_attach(job, facts)
            case Verb.MOUNT_DEVICE:
                return self._mount_device(job, facts)
            case Verb.MOUNT:
                return self._mount(job, facts)
            case Verb.EXPAND:
                return self._expand(job, facts)
            case Verb.UNMOUNT:
                return self._unmount(job, facts)
            case Verb.UNMOUNT_DEVICE:
                return self._unmount_device(job, facts)
            case Verb.DETACH:
                return self._detach(job, facts)

    def _deadline(self, job: Job) -> float:
        return self._host.clock() + job.allowed

    # --- the volume as a whole ---

    def _attach(self, job: Job, facts: Facts) -> Facts:
        self._record_volume(job, attached=Presence.UNCERTAIN)
        request: Attach[Any] = Attach(
            spec=_spec(job),
            volume=job.operation.volume,
            node_name=job.node_name,
            objects=job.objects,
            deadline=self._deadline(job),
            cancelled=job.cancel.is_set,
            progress=job.progress,
        )
        answer = job.type.call("attach", request, self._host)
        with _uncertain_if_it_fails():
            self._record_volume(job, attached=Presence.YES, device_path=answer.device_path)
        return replace(facts, device_path=answer.device_path)

    def _wait_for_attach(self, job: Job, facts: Facts) -> Facts:
        request: WaitForAttach[Any] = WaitForAttach(
            spec=_spec(job),
            volume=job.operation.volume,
            device_path=job.actual.device_path if job.actual else "",
            objects=job.objects,
            deadline=self._deadline(job),
            cancelled=job.cancel.is_set,
            progress=job.progress,
        )
        answer = job.type.call("wait_for_attach", request, self._host)
        return replace(facts, device_path=answer.device_path)

    def _mount_device(self, job: Job, facts: Facts) -> Facts:
        spec = _spec(job)
        target = self._device_target(job)
        wanted = _first_waiting(job)
        self._record_volume(job, device=Presence.UNCERTAIN, device_target=str(target))
        request: MountDevice[Any] = MountDevice(
            spec=spec,
            volume=job.operation.volume,
            device_path=job.actual.device_path if job.actual else "",
            target=target,
            mode=spec.mode,
            options=_options(spec.mount_options, read_only=spec.read_only),
            fs_group=wanted.pod.spec.security_context.fs_group if wanted else None,
            selinux_label=job.desired.selinux_label if job.desired else "",
            objects=job.objects,
            deadline=self._deadline(job),
            cancelled=job.cancel.is_set,
            progress=job.progress,
        )
        answer = job.type.call("mount_device", request, self._host)
        path = answer.device_path or request.device_path
        with _uncertain_if_it_fails():
            proof = self._host.files.identity(target)
            self._record_volume(job, device=Presence.YES, device_target=str(target), device_path=path, identity=proof)
        return replace(facts, device_path=path, device_target=target, label=request.selinux_label, size=facts.size)

    def _device_target(self, job: Job) -> Path:
        if job.actual is not None and job.actual.device_target is not None:
            return job.actual.device_target
        target: Path = job.type.ask("device_target", _spec(job), self._host)
        return target

    def _unmount_device(self, job: Job, facts: Facts) -> Facts:
        actual = job.actual
        if actual is None:
            return facts
        target = self._device_target(job)  # not known yet where mounting it did not return
        self._record_volume(job, device=Presence.UNCERTAIN)
        if actual.mode is VolumeMode.BLOCK:
            blockmap.check_unused(self._host, target)
        request = UnmountDevice(
            volume=actual.name,
            device_path=actual.device_path,
            target=target,
            mode=actual.mode,
            deadline=self._deadline(job),
            progress=job.progress,
        )
        job.type.call("unmount_device", request, self._host)
        if actual.mode is VolumeMode.BLOCK:
            self._host.files.remove_directory(target)
        if actual.device_path and not self._host.block.is_free(Path(actual.device_path)):
            raise UncertainError(
                f"the device {actual.device_path} is in use when it was no longer expected to be in use"
            )
        if actual.attached is Presence.NO or job.others_detach:
            self._journal.forget_volume(actual.name)
        else:
            self._record_volume(job, device=Presence.NO, device_target="")
        return facts

    def _detach(self, job: Job, facts: Facts) -> Facts:
        self._record_volume(job, attached=Presence.UNCERTAIN)
        request = Detach(
            volume=job.operation.volume,
            device_path=job.actual.device_path if job.actual else "",
            node_name=job.node_name,
            deadline=self._deadline(job),
            progress=job.progress,
        )
        job.type.call("detach", request, self._host)
        self._journal.forget_volume(job.operation.volume)
        return facts

    def _expand(self, job: Job, facts: Facts) -> Facts:
        actual, desired = job.actual, job.desired
        assert actual is not None and desired is not None  # noqa: S101, PT018 - next_step() asks for both
        mounted = next(iter(actual.mounts.values()), None)
        request: Expand[Any] = Expand(
            spec=desired.spec,
            volume=actual.name,
            device_path=actual.device_path,
            device_target=actual.device_target,
            target=mounted.path if mounted else None,
            mode=actual.mode,
            old_size=actual.size,
            new_size=desired.size,
            objects=job.objects,
            deadline=self._deadline(job),
            progress=job.progress,
        )
        answer = job.type.call("expand", request, self._host)
        size = max(answer.size, desired.size)
        if self._journal.read_volume(actual.name) is not None:
            self._record_volume(job, size=size)
        return replace(facts, size=size)

    def _record_volume(self, job: Job, **changes: Any) -> None:  # noqa: ANN401 - fields of VolumeRecord
        old = self._journal.read_volume(job.operation.volume)
        if old is None:
            spec = job.desired.spec if job.desired else job.actual.spec if job.actual else None
            if spec is None:
                return
            wishes = tuple(job.desired.mounts.values()) if job.desired else ()
            source: Mapping[str, object] = wishes[0].source if wishes else {}
            old = VolumeRecord(
                volume=job.operation.volume,
                plugin=job.type.name,
                spec=SpecRecord.of(spec, source),
                boot_id=self._host.kernel.boot_id,
                attached=job.actual.attached if job.actual else Presence.NO,
                device=job.actual.device if job.actual else Presence.NO,
                size=job.desired.size if job.desired else 0,
            )
        self._journal.write_volume(replace(old, boot_id=self._host.kernel.boot_id, **changes))

    # --- one Pod's mount ---

    def _mount(self, job: Job, facts: Facts) -> Facts:
        mount = job.mount
        spec, pod = mount.spec, mount.pod
        old = job.actual.mounts.get(pod.uid) if job.actual else None
        request = self._mount_request(job, mount, remount=old is not None and old.state is Presence.YES)
        record = MountRecord(
            volume=job.operation.volume,
            plugin=job.type.name,
            pod_uid=pod.uid,
            spec=SpecRecord.of(spec, mount.source),
            step="mounting",
            boot_id=self._host.kernel.boot_id,
            source_key=mount.source_key,
            directory=facts.facets is None or facts.facets.directory,
        )
        if not request.remount:
            self._journal.write_mount(record)
        answer = job.type.call("mount", request, self._host)
        path = answer.path or request.target
        at = self._wall()
        with _uncertain_if_it_fails():
            device_path = self._finish_mount(job, request, answer, path)
            identity = self._host.files.identity(request.target) if record.directory else None
            done = replace(
                record,
                step="mounted",
                revision=mount.revision,
                path=str(path),
                device_path=device_path,
                identity=identity,
                mounted_at=at,
            )
            self._journal.write_mount(done, again=True)
        is_mount = identity is not None and identity.mount is not None
        return replace(facts, path=path, device_path=device_path or None, at=at, is_mount=is_mount)

    def _finish_mount(self, job: Job, request: Mount[Any], answer: Mounted, path: Path) -> str:
        """Do what the core does after the plugin: map the device, or give the files to the Pod's group."""
        if request.mode is VolumeMode.BLOCK:
            directory = request.device_target or self._device_target(job)
            device_path = answer.device_path or request.device_path
            return blockmap.map_device(self._host, device_path, directory, request.pod.uid, request.target)
        self._make_writable(job, request)
        self._give_to_group(job, request, path)
        return answer.device_path

    def _mount_request(self, job: Job, mount: DesiredMount, *, remount: bool) -> Mount[Any]:
        spec, pod = mount.spec, mount.pod
        options = self._mount_options.get(job.type.name, ()) if spec.pv is None else spec.mount_options
        paths = self._host.paths
        block = spec.mode is VolumeMode.BLOCK
        return Mount(
            spec=spec,
            volume=job.operation.volume,
            pod=pod,
            target=(paths.block_volume if block else paths.volume)(pod.uid, job.type.name, spec.name),
            mode=spec.mode,
            device_path=job.actual.device_path if job.actual else "",
            device_target=job.actual.device_target if job.actual else None,
            options=_options(options, read_only=spec.read_only),
            read_only=spec.read_only,
            fs_user=_common_user(mount),
            fs_group=pod.spec.security_context.fs_group,
            fs_group_policy=pod.spec.security_context.fs_group_change_policy,
            selinux_label=mount.selinux_label,
            size_limit=mount.size_limit,
            memory_limit=mount.memory_limit,
            remount=remount,
            reconstructed=job.actual is not None and job.actual.reconstructed,
            node=job.node,
            objects=job.objects,
            deadline=self._deadline(job),
            cancelled=job.cancel.is_set,
            progress=job.progress,
        )

    def _give_to_group(self, job: Job, request: Mount[Any], path: Path) -> None:
        facets = job.desired.facets if job.desired else None
        if facets is None or facets.fs_group is not Applies.CORE or request.fs_group is None or request.read_only:
            return
        self._host.ownership.apply(
            path,
            request.fs_group,
            policy=request.fs_group_policy,
            cancelled=request.cancelled,
            progress=request.progress,
        )

    def _make_writable(self, job: Job, request: Mount[Any]) -> None:
        """Repair a mount that was there before and that somebody made read-only, or say that it cannot be."""
        if job.actual is None or request.pod.uid not in job.actual.mounts:
            return
        if request.read_only or not self._host.mounts.is_mount_point(request.target):
            return
        entry = self._host.mounts.entry(request.target)
        if entry is not None and entry.read_only:
            self._host.mounts.remount(request.target, ("rw",))

    def _unmount(self, job: Job, facts: Facts) -> Facts:
        uid, actual = job.operation.pod_uid, job.actual
        mount = actual.mounts[uid] if actual else None
        if actual is None or mount is None:
            return facts
        paths = self._host.paths
        block = actual.mode is VolumeMode.BLOCK
        target = (paths.block_volume if block else paths.volume)(uid, job.type.name, mount.spec_name)
        record = self._journal.read_mount(uid, mount.spec_name)
        if record is not None and record.step != "unmounting":
            self._journal.write_mount(replace(record, step="unmounting"), again=True)
        self._clear_subpaths(uid, mount.spec_name)
        if block:
            directory = actual.device_target or self._device_target(job)
            blockmap.unmap_device(self._host, directory, uid, target)
        request = Unmount(
            volume=actual.name,
            pod_uid=uid,
            spec_name=mount.spec_name,
            target=target,
            mode=actual.mode,
            device_path=mount.device_path or actual.device_path,
            deadline=self._deadline(job),
            progress=job.progress,
        )
        job.type.call("unmount", request, self._host)
        self._journal.forget_mount(uid, mount.spec_name)
        return facts

    def _clear_subpaths(self, uid: str, spec_name: str) -> None:
        """Unmount a volume's subPaths before the volume; decided by the mount table, never by stat."""
        top = self._host.paths.subpaths(uid) / spec_name
        if self._host.files.names(top):
            clear_binds(self._host, top)


@contextmanager
def _uncertain_if_it_fails() -> Generator[None]:
    """Say that no failure is a clean one any more: the plugin has done its part, and the volume is there."""
    try:
        yield
    except VolmgrError as error:
        raise UncertainError(str(error)) from error


def _facts(job: Job) -> Facts:
    """Say what the volume was asked for; the outcome adds to it."""
    uid = job.operation.pod_uid
    desired = job.desired
    mount = desired.mounts.get(uid) if desired else None
    if desired is None or not job.operation.verb.is_making:
        return Facts(plugin=job.type.name)
    return Facts(
        plugin=desired.plugin,
        spec=desired.spec,
        facets=desired.facets,
        spec_name=mount.spec.name if mount else "",
        revision=mount.revision if mount else "",
        source_key=mount.source_key if mount else "",
        mode=desired.spec.mode,
        size=desired.size,
    )


def _first_waiting(job: Job) -> DesiredMount | None:
    """Give the wish of the first Pod that waits for a volume's device: its group and label go with it."""
    there = frozenset(job.actual.mounts) if job.actual else frozenset[str]()
    wishes = sorted(job.desired.mounts.items()) if job.desired else []
    waiting = [wish for uid, wish in wishes if uid not in there and not wish.keep_only]
    return next(iter(waiting or [wish for _, wish in wishes]), None)


def _spec(job: Job) -> Any:  # noqa: ANN401 - the plugin's own VolumeSpec type
    if job.desired is not None:
        return job.desired.spec
    if job.actual is not None and job.actual.spec is not None:
        return job.actual.spec
    raise OperationError(f"{job.operation.verb} of {job.operation.volume}: nothing says which volume it is")


def _options(options: tuple[str, ...], *, read_only: bool) -> tuple[str, ...]:
    return tuple(sorted({*options, "ro"})) if read_only else options


def _common_user(mount: DesiredMount) -> int | None:
    """Give the one user that all containers run as, or None (kubelet's FsUserFrom)."""
    whole = mount.pod.spec.security_context.run_as_user
    users = {
        whole if container.security_context.run_as_user is None else container.security_context.run_as_user
        for container in mount.pod.all_containers()
    }
    return users.pop() if len(users) == 1 else None
