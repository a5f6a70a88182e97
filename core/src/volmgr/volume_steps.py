"""What is done to a volume as a whole: attach, mount its device, expand, and back again; records ahead of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volmgr import blockmap
from volmgr.actual import Facts
from volmgr.desired import DesiredMount
from volmgr.errors import OperationError, UncertainError, uncertain_if_it_fails
from volmgr.jobs import Job, device_target, kept_writable, mount_options, spec_of, terms
from volmgr.journal import Journal, SpecRecord, VolumeRecord
from volmgr.model.volume import Presence, VolumeMode
from volmgr.plugin import Attach, Detach, Expand, MountDevice, UnmountDevice, WaitForAttach

if TYPE_CHECKING:
    from volmgr.host.interface import Host


class VolumeSteps:
    """Performs them on a host; each gives the facts that it learned."""

    def __init__(self, host: Host, journal: Journal) -> None:
        self._host = host
        self._journal = journal

    def attach(self, job: Job, facts: Facts) -> Facts:
        self.record(job, attached=Presence.UNCERTAIN)
        request: Attach[Any] = Attach(
            spec=spec_of(job),
            volume=job.operation.volume,
            node_name=job.node_name,
            objects=job.objects,
            **terms(job, self._host),
        )
        answer = job.type.call("attach", request, self._host)
        with uncertain_if_it_fails():
            self.record(job, attached=Presence.YES, device_path=answer.device_path)
        return replace(facts, device_path=answer.device_path)

    def wait_for_attach(self, job: Job, facts: Facts) -> Facts:
        request: WaitForAttach[Any] = WaitForAttach(
            spec=spec_of(job),
            volume=job.operation.volume,
            device_path=job.actual.device_path if job.actual else "",
            node_name=job.node_name,
            objects=job.objects,
            **terms(job, self._host),
        )
        answer = job.type.call("wait_for_attach", request, self._host)
        return replace(facts, device_path=answer.device_path)

    def mount_device(self, job: Job, facts: Facts) -> Facts:
        spec = spec_of(job)
        target = device_target(job, self._host)
        wanted = _first_waiting(job)
        path = job.actual.device_path if job.actual else ""
        made = {"device": Presence.UNCERTAIN, "device_target": str(target), "device_path": path}
        self.record(job, **made, label=facts.label)
        request: MountDevice[Any] = MountDevice(
            spec=spec,
            volume=job.operation.volume,
            device_path=path,
            target=target,
            mode=spec.mode,
            options=mount_options(spec.mount_options, read_only=spec.read_only),
            fs_group=wanted.pod.spec.security_context.fs_group if wanted else None,
            selinux_label=facts.label,
            node_name=job.node_name,
            objects=job.objects,
            **terms(job, self._host),
        )
        answer = job.type.call("mount_device", request, self._host)
        path = answer.device_path or request.device_path
        was_there = job.actual is not None and job.actual.device is not Presence.NO
        read_only = job.actual.device_read_only if job.actual else None
        with uncertain_if_it_fails():
            if spec.mode is VolumeMode.FILESYSTEM and "ro" not in request.options:
                read_only = kept_writable(self._host, target, spec, known=read_only, was_there=was_there)
            proof = self._host.files.identity(target)
            done = {"device": Presence.YES, "device_target": str(target), "device_path": path}
            self.record(job, **done, identity=proof, read_only=read_only)
        is_mount = proof is not None and proof.mount is not None
        return replace(
            facts,
            device_path=path,
            device_target=target,
            device_is_mount=is_mount,
            read_only=read_only,
            notices=answer.notices,
        )

    def unmount_device(self, job: Job, facts: Facts) -> Facts:
        actual = job.actual
        if actual is None:
            return facts
        target = device_target(job, self._host)  # not known yet where mounting it did not return
        self.record(job, device=Presence.UNCERTAIN)
        if actual.mode is VolumeMode.BLOCK:
            blockmap.check_unused(self._host, target)
        else:
            _refuse_others(self._host, target)
        request = UnmountDevice(
            volume=actual.name,
            device_path=actual.device_path,
            target=target,
            mode=actual.mode,
            **terms(job, self._host),
        )
        answer = job.type.call("unmount_device", request, self._host)
        if actual.mode is VolumeMode.BLOCK:
            self._host.files.remove_directory(target)
        kept = Path(actual.device_path) if actual.device_path and not answer.device_is_gone else None
        if kept is not None and not self._host.block.is_free(kept):
            raise UncertainError(
                f"the device {actual.device_path} is in use when it was no longer expected to be in use"
            )
        if actual.attached is Presence.NO or job.others_detach:
            self._journal.forget_volume(actual.name)
        else:
            self.record(job, device=Presence.NO, device_target="", read_only=None)
        return facts

    def detach(self, job: Job, facts: Facts) -> Facts:
        self.record(job, attached=Presence.UNCERTAIN)
        request = Detach(
            volume=job.operation.volume,
            device_path=job.actual.device_path if job.actual else "",
            node_name=job.node_name,
            objects=job.objects,
            **terms(job, self._host),
        )
        job.type.call("detach", request, self._host)
        self._journal.forget_volume(job.operation.volume)
        return facts

    def expand(self, job: Job, facts: Facts) -> Facts:
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
            known_size=desired.known_size,
            objects=job.objects,
            **terms(job, self._host),
        )
        answer = job.type.call("expand", request, self._host)
        size = max(answer.size, desired.size)
        if self._journal.read_volume(actual.name) is not None:
            self.record(job, size=size)
        return replace(facts, size=size)

    def record(self, job: Job, **changes: Any) -> None:  # noqa: ANN401 - fields of VolumeRecord
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
                size=(job.desired.known_size or job.desired.size) if job.desired else 0,
            )
        self._journal.write_volume(replace(old, boot_id=self._host.kernel.boot_id, **changes))


def _refuse_others(host: Host, target: Path) -> None:
    """Refuse to unmount a device that is mounted elsewhere, too; raises OperationError naming where.

    Copies of the node's mount are no others: the same path below another root, as a container of kubelet's kind has it.
    """
    mine = host.mounts.entry(target) if target.is_relative_to(host.paths.plugins) else None
    if mine is None:
        return
    copy = f"/{target.relative_to(host.paths.root)}"
    others = sorted(
        str(entry.target)
        for entry in host.mounts.table()
        if entry.device == mine.device and entry.root == mine.root and not str(entry.target).endswith(copy)
    )
    if others:
        raise OperationError(
            f"cannot unmount {target}: its device is still mounted by other references: {', '.join(others)};"
            " unmount them first"
        )


def _first_waiting(job: Job) -> DesiredMount | None:
    """Give the wish of the first Pod that waits for a volume's device: its group and label go with it."""
    there = frozenset(job.actual.mounts) if job.actual else frozenset[str]()
    wishes = sorted(job.desired.mounts.items()) if job.desired else []
    waiting = [wish for uid, wish in wishes if uid not in there and not wish.keep_only]
    return next(iter(waiting or [wish for _, wish in wishes]), None)
