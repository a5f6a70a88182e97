"""What is done to a volume for one Pod: mount and unmount; records ahead of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volmgr import blockmap
from volmgr.actual import Facts, subpaths_after
from volmgr.desired import DesiredMount
from volmgr.errors import uncertain_if_it_fails
from volmgr.jobs import Job, device_target, kept_writable, mount_options, terms
from volmgr.journal import Journal, MountRecord, SpecRecord
from volmgr.model.names import kubelet_plugin
from volmgr.model.volume import Applies, Presence, VolumeMode, VolumeSpec
from volmgr.plugin import Mount, Mounted, Unmount
from volmgr.tidy import clear_binds

if TYPE_CHECKING:
    from volmgr.host.interface import Host


class PodSteps:
    """Performs them on a host; `inline_options` are further mount options of inline volumes, by type."""

    def __init__(
        self,
        host: Host,
        journal: Journal,
        wall: Callable[[], float],
        inline_options: Mapping[str, tuple[str, ...]],
    ) -> None:
        self._host = host
        self._journal = journal
        self._wall = wall
        self._inline_options = inline_options

    def mount(self, job: Job, facts: Facts) -> Facts:
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
            label=facts.label,
            directory=facts.facets is None or facts.facets.directory,
            subpaths=subpaths_after(old),
        )
        if not request.remount:
            self._journal.write_mount(record)
        answer = job.type.call("mount", request, self._host)
        path = answer.path or request.target
        at = self._wall()
        with uncertain_if_it_fails():
            device_path, read_only = self._finish_mount(job, request, answer, path)
            proof = self._proof(job, request, path, device_path)
            identity = None if proof is None else self._host.files.identity(proof)
            done = replace(
                record,
                step="mounted",
                revision=mount.revision,
                path=str(path),
                device_path=device_path,
                proof=str(proof or ""),
                identity=identity,
                read_only=read_only,
                mounted_at=at,
                due_at=answer.due_at,
            )
            self._journal.write_mount(done, again=True)
        return replace(
            facts,
            path=path,
            device_path=device_path or None,
            at=at,
            mount_point=proof if identity is not None and identity.mount is not None else None,
            read_only=read_only,
            due_at=answer.due_at,
            notices=answer.notices,
        )

    def _proof(self, job: Job, request: Mount[Any], path: Path, device_path: str) -> Path | None:
        """Say which path shows that a volume is still there; of a path of the node itself (hostPath) none does."""
        if request.mode is VolumeMode.BLOCK:
            return self._block_proof(_map_directory(job, request, self._host), request.pod.uid, Path(device_path))
        facets = job.desired.facets if job.desired else None
        if facets is None or facets.directory:
            return _place(request, path)
        return path if path.is_relative_to(self._host.paths.state) else None

    def _block_proof(self, directory: Path, uid: str, device: Path) -> Path:
        """Give the bind of a device; or the device, where a driver has bound it below the root directory."""
        published = device.is_relative_to(self._host.paths.root) and self._host.mounts.is_mount_point(device)
        return device if published else directory / uid

    def _finish_mount(self, job: Job, request: Mount[Any], answer: Mounted, path: Path) -> tuple[str, bool | None]:
        """Do what the core does after the plugin: map the device, or give the files to the Pod's group.

        Gives the device's path, and whether what is mounted is read-only as it should be.
        """
        if request.mode is VolumeMode.BLOCK:
            directory = _map_directory(job, request, self._host)
            device_path = answer.device_path or request.device_path
            mapped = blockmap.map_device(self._host, device_path, directory, request.pod.uid, request.target)
            return mapped, None
        read_only = self._kept_writable(job, request, _place(request, path))
        self._give_to_group(job, request, path)
        return answer.device_path, read_only

    def _kept_writable(self, job: Job, request: Mount[Any], place: Path) -> bool | None:
        old = job.actual.mounts.get(request.pod.uid) if job.actual else None
        known = old.read_only if old else None
        facets = job.desired.facets if job.desired else None
        if "ro" in request.options or (facets is not None and facets.read_only):
            return True
        device = request.device_target  # a directory of the node is bound without having been mounted there
        ours = device is None or self._host.mounts.is_mount_point(device)
        return kept_writable(self._host, place, request.spec, known=known, was_there=old is not None, file_system=ours)

    def _mount_request(self, job: Job, mount: DesiredMount, *, remount: bool) -> Mount[Any]:
        spec, pod = mount.spec, mount.pod
        options = self._inline_options.get(job.type.name, ()) if spec.pv is None else spec.mount_options
        paths = self._host.paths
        block = spec.mode is VolumeMode.BLOCK
        return Mount(
            spec=spec,
            volume=job.operation.volume,
            pod=pod,
            target=(paths.block_volume if block else paths.volume)(pod.uid, _directory(job, spec), spec.name),
            mode=spec.mode,
            device_path=job.actual.device_path if job.actual else "",
            device_target=job.actual.device_target if job.actual else None,
            options=mount_options(options, read_only=spec.read_only),
            read_only=spec.read_only,
            fs_user=_common_user(mount),
            fs_group=pod.spec.security_context.fs_group,
            fs_group_policy=pod.spec.security_context.fs_group_change_policy,
            selinux_label=job.desired.selinux_label if job.desired else "",
            size_limit=mount.size_limit,
            memory_limit=mount.memory_limit,
            remount=remount,
            reconstructed=job.actual is not None and job.actual.reconstructed,
            node_name=job.node_name,
            node=job.node,
            objects=job.objects,
            **terms(job, self._host),
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

    def unmount(self, job: Job, facts: Facts) -> Facts:
        uid, actual = job.operation.pod_uid, job.actual
        mount = actual.mounts[uid] if actual else None
        if actual is None or mount is None:
            return facts
        paths = self._host.paths
        block = actual.mode is VolumeMode.BLOCK
        target = (paths.block_volume if block else paths.volume)(uid, actual.kubelet_plugin, mount.spec_name)
        record = self._journal.read_mount(uid, mount.spec_name)
        if record is not None and record.step != "unmounting":
            self._journal.write_mount(replace(record, step="unmounting"), again=True)
        self._clear_subpaths(uid, mount.spec_name)
        if block:
            directory = actual.device_target or device_target(job, self._host)
            blockmap.unmap_device(self._host, directory, uid, target)
        request = Unmount(
            volume=actual.name,
            pod_uid=uid,
            spec_name=mount.spec_name,
            target=target,
            mode=actual.mode,
            device_path=mount.device_path or actual.device_path,
            **terms(job, self._host),
        )
        job.type.call("unmount", request, self._host)
        self._journal.forget_mount(uid, mount.spec_name)
        return facts

    def _clear_subpaths(self, uid: str, spec_name: str) -> None:
        """Unmount a volume's subPaths before the volume; decided by the mount table, never by stat."""
        top = self._host.paths.subpaths(uid) / spec_name
        if self._host.files.names(top):
            clear_binds(self._host, top)


def _directory(job: Job, spec: VolumeSpec[Any]) -> str:
    return kubelet_plugin(job.type.name, spec.type, spec.driver)


def _place(request: Mount[Any], path: Path) -> Path:
    """Give where a volume is mounted: its directory, or what lies in that (CSI's `mount`)."""
    return path if path.is_relative_to(request.target) else request.target


def _map_directory(job: Job, request: Mount[Any], host: Host) -> Path:
    return request.device_target or device_target(job, host)


def _common_user(mount: DesiredMount) -> int | None:
    """Give the one user that all containers run as, or None (kubelet's FsUserFrom)."""
    whole = mount.pod.spec.security_context.run_as_user
    users = {
        whole if container.security_context.run_as_user is None else container.security_context.run_as_user
        for container in mount.pod.all_containers()
    }
    return users.pop() if len(users) == 1 else None
