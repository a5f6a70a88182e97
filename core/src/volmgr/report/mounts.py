"""What a Pod's containers are to be given: which host path where, with which options. Pure.

Source: `behaviours.md` §2.15, which is `makeMounts` and `makeBlockVolumes` of kubelet 1.37.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from volmgr.actual import Cause
from volmgr.claims import extra_group
from volmgr.errors import SpecError, VolmgrError
from volmgr.model.downward import Amounts, allocatable
from volmgr.model.expansion import Environment, Surroundings, Text
from volmgr.model.volume import Presence
from volmgr.next_step import source_changed
from volmgr.operations import Operation, Verb
from volmgr.report.waiting import leaves, mount_is_good

if TYPE_CHECKING:
    from volmgr.actual import PodMount
    from volmgr.desired import DesiredVolume
    from volmgr.model.meta import ObjectRef
    from volmgr.model.objects import Object
    from volmgr.model.pod import Container, Pod, VolumeDevice, VolumeMount
    from volmgr.report.world import PodEntry, World

PROPAGATIONS = {"": "rprivate", "None": "rprivate", "HostToContainer": "rslave", "Bidirectional": "rshared"}
"""What a volumeMount's mountPropagation is to mount(2)."""
_RECURSIVE = ("Enabled", "IfPossible")


@dataclass(frozen=True, slots=True, kw_only=True)
class MountReport:
    """One mount of a container. `problem` says why it is not there; `source` is empty then.

    `sub_path` is the subPath or subPathExpr as it is written. `relabel` says that the runtime is to give the files the
    container's SELinux label. `note` is worth knowing although all is well.
    """

    volume: str
    source: str = ""
    target: str
    sub_path: str = ""
    read_only: bool
    recursive_read_only: bool = False
    propagation: str
    options: tuple[str, ...]
    relabel: bool = False
    note: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReport:
    """One block device of a container: `path` is its name there, `permissions` are `mrw` or `mr`."""

    volume: str
    path: str
    source: str = ""
    major: int = 0
    minor: int = 0
    mode: int = 0
    permissions: str = "mrw"
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerReport:
    """What one container is to be given; `kind` is init, main or ephemeral."""

    name: str
    kind: str
    mounts: tuple[MountReport, ...] = ()
    devices: tuple[DeviceReport, ...] = ()
    supplemental_groups: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MountsReport:
    """What a Pod's containers are to be given; `problems` are those of all of them, for people."""

    namespace: str
    name: str
    uid: str
    containers: tuple[ContainerReport, ...]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A subPath that is to be bound: `sub_path` expanded, on `target`, and of which volume.

    `revision` is that of the volume's content; `create` says whether missing directories are made.
    """

    volume: str
    spec_name: str
    key: str
    path: Path
    sub_path: Text
    target: Path
    revision: str
    create: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be done before a Pod's containers can be started, and the report but for that.

    `parts` are found by container and index of the volumeMount, `awaited` are volumes whose content is to change yet.
    """

    report: MountsReport
    parts: dict[tuple[str, int], Part] = field(default_factory=dict[tuple[str, int], Part])
    awaited: tuple[str, ...] = ()

    @property
    def volumes(self) -> tuple[str, ...]:
        """The volumes of which something is to be bound, by their unique names."""
        return tuple(sorted({part.volume for part in self.parts.values()}))


def part_key(container: str, index: int) -> str:
    """Name a subPath within its volume: as its bind target ends."""
    return f"{container}/{index}"


def plan_mounts(world: World, selector: str, container: str, amounts: Amounts, node_name: str = "") -> Plan:
    """Say what the containers of a Pod (or the one that is named) are to be given.

    Raises KeyError for an unknown Pod, SpecError for an unknown container or a Pod that leaves.
    """
    found = world.find_pods(selector)
    if not found:
        raise KeyError(selector)
    entry = found[0]
    pod = entry.pod
    if leaves(world, entry):
        message = f"pod {pod.key} leaves, or has ended: its containers are not to be started any more"
        raise SpecError(message)
    names = [each.name for each in pod.all_containers()]
    if container and container not in names:
        message = f"pod {pod.key} has no container {container!r}; it has {', '.join(names)}"
        raise SpecError(message)
    return _Planning(world, entry, allocatable(world.node, amounts), node_name).plan(container)


class _Planning:
    """One Pod, looked at once."""

    def __init__(self, world: World, entry: PodEntry, amounts: Amounts, node_name: str) -> None:
        self._world = world
        self._entry = entry
        self._pod = entry.pod
        self._around = Surroundings(
            get=self._object, amounts=amounts, node_name=node_name, awaited=world.awaited, absence=world.absence
        )
        self._wanted = {
            name: volume
            for volume in world.desired.of_pod(entry.pod.uid)
            for name in volume.mounts[entry.pod.uid].outer_names
        }
        self._parts: dict[tuple[str, int], Part] = {}
        self._awaited: set[str] = set()

    def _object(self, ref: ObjectRef) -> Object | None:
        entry = self._world.objects.get(ref)
        return entry.item if entry else None

    def plan(self, only: str) -> Plan:
        meta = self._pod.metadata
        containers = tuple(self._container(*each) for each in _containers(self._pod) if only in ("", each[1].name))
        report = MountsReport(namespace=meta.namespace, name=meta.name, uid=meta.uid, containers=containers)
        return Plan(report=report, parts=self._parts, awaited=tuple(sorted(self._awaited)))

    def _container(self, kind: str, container: Container) -> ContainerReport:
        return ContainerReport(
            name=container.name,
            kind=kind,
            mounts=tuple(self._mount(container, *each) for each in enumerate(container.volume_mounts)),
            devices=tuple(map(self._device, container.volume_devices)),
            supplemental_groups=supplemental_groups(self._pod, self._wanted.values()),
        )

    def _mount(self, container: Container, index: int, mount: VolumeMount) -> MountReport:
        volume = self._wanted.get(mount.name)
        read_only = mount.read_only or (volume is not None and _is_read_only(volume, self._pod.uid))
        report = _bare_report(mount, read_only=read_only)
        there = self._there(volume)
        if volume is None or there is None or there.path is None:
            if volume is not None and self._is_taken_over(volume):
                self._awaited.add(volume.name)
            return replace(report, problem=self._absence(mount.name, volume))
        relabel = volume.facets.relabel and not volume.mounts[self._pod.uid].spec.read_only and not there.label
        report = replace(report, source=str(there.path), relabel=relabel)
        if not report.sub_path:
            return report
        try:
            part = self._part(container, index, mount, volume, there)
        except VolmgrError as error:
            return refused(report, str(error))
        self._parts[container.name, index] = part
        if self._is_to_change(volume):
            self._awaited.add(volume.name)
        note = "it showed an older version of the volume" if is_behind(there, part.key) else ""
        return replace(report, source=str(part.target), note=note)

    def _part(
        self, container: Container, index: int, mount: VolumeMount, volume: DesiredVolume, there: PodMount
    ) -> Part:
        text = Text(mount.sub_path)
        if mount.sub_path_expr:
            text = Environment(self._pod, container, self._around).expand(mount.sub_path_expr)
            if not text.text:
                message = f"subPathExpr {mount.sub_path_expr} is empty, which would be the whole volume; write ./$(…)"
                raise SpecError(message)
        spec = volume.mounts[self._pod.uid].spec
        target = self._world.paths.subpaths(self._pod.uid).joinpath(spec.name, container.name, str(index))
        assert there.path is not None  # noqa: S101 - the caller has looked
        return Part(
            volume=volume.name,
            spec_name=spec.name,
            key=part_key(container.name, index),
            path=there.path,
            sub_path=text,
            target=target,
            revision=there.revision,
            create=not _is_read_only(volume, self._pod.uid),
        )

    def _there(self, volume: DesiredVolume | None) -> PodMount | None:
        """Give the mount of a volume if containers may use it."""
        uid = self._pod.uid
        actual = self._world.actual.get(volume.name) if volume else None
        mount = actual.mounts.get(uid) if actual else None
        if volume is None or mount is None or mount.state is not Presence.YES:
            return None
        return None if source_changed(volume.mounts[uid], mount) else mount

    def _absence(self, name: str, volume: DesiredVolume | None) -> str:
        if all(each.name != name for each in self._pod.spec.volumes):
            return f"the Pod has no volume {name}; add it to spec.volumes"
        error = "" if volume is not None else self._entry.errors.get(name, "")
        if volume is None and name in self._entry.awaited:
            error = f"it waits for {self._entry.awaited[name]}"
        return f"volume {name} is not mounted{': ' if error else ''}{error}; volmgr why {self._pod.key} says more"

    def _is_to_change(self, volume: DesiredVolume) -> bool:
        """Say whether a volume's content is about to be replaced; not when that failed, or waits for an object."""
        uid = self._pod.uid
        if volume.mounts[uid].missing or mount_is_good(volume, self._world.actual.get(volume.name), uid):
            return False
        return self._world.admission.backoff(Operation(Verb.MOUNT, volume.name, uid)) is None

    def _is_taken_over(self, volume: DesiredVolume) -> bool:
        """Say whether a volume that was found at the start is about to be looked at."""
        uid = self._pod.uid
        actual = self._world.actual.get(volume.name)
        mount = actual.mounts.get(uid) if actual else None
        if mount is None or mount.state is not Presence.UNCERTAIN or mount.cause is not Cause.RECONSTRUCTION:
            return False
        return self._world.admission.backoff(Operation(Verb.MOUNT, volume.name, uid)) is None

    def _device(self, device: VolumeDevice) -> DeviceReport:
        volume = self._wanted.get(device.name)
        read_only = volume is not None and volume.mounts[self._pod.uid].spec.read_only
        permissions = "mr" if read_only else "mrw"
        report = DeviceReport(volume=device.name, path=device.device_path, permissions=permissions)
        there = self._there(volume)
        if there is None or not there.device_path:
            return replace(report, problem=self._absence(device.name, volume))
        return replace(report, source=there.device_path)


def _containers(pod: Pod) -> Iterator[tuple[str, Container]]:
    spec = pod.spec
    for kind, containers in (
        ("init", spec.init_containers),
        ("main", spec.containers),
        ("ephemeral", spec.ephemeral_containers),
    ):
        for container in containers:
            yield kind, container


def _bare_report(mount: VolumeMount, *, read_only: bool) -> MountReport:
    propagation = PROPAGATIONS.get(mount.mount_propagation, PROPAGATIONS["None"])
    recursive = read_only and mount.recursive_read_only in _RECURSIVE and propagation == PROPAGATIONS["None"]
    path = mount.mount_path
    return MountReport(
        volume=mount.name,
        target=path if path.startswith("/") else f"/{path}",
        sub_path=mount.sub_path or mount.sub_path_expr,
        read_only=read_only,
        recursive_read_only=recursive,
        propagation=propagation,
        options=("rbind", propagation, "rro" if recursive else "ro" if read_only else "rw"),
    )


def _is_read_only(volume: DesiredVolume, uid: str) -> bool:
    return volume.facets.read_only or volume.mounts[uid].spec.read_only


def refused(report: MountReport, problem: str) -> MountReport:
    """Give the report of a mount whose subPath cannot be had."""
    return replace(
        report, source="", note="", problem=f"subPath {report.sub_path} of volume {report.volume}: {problem}"
    )


def supplemental_groups(pod: Pod, volumes: Iterable[DesiredVolume]) -> tuple[int, ...]:
    """Give the groups of a Pod's processes: fsGroup, what its volumes' annotations add, its own; each once."""
    context = pod.spec.security_context
    specs = [volume.mounts[pod.uid].spec for volume in volumes]
    extra = [extra_group(pod, spec.pv) for spec in specs if spec.pv is not None]
    groups = (context.fs_group, *extra, *context.supplemental_groups)
    return tuple(dict.fromkeys(group for group in groups if group is not None))


def is_behind(mount: PodMount, key: str) -> bool:
    """Say whether a subPath was bound before the last change of its volume's content."""
    return key in mount.subpaths and mount.subpaths[key] != mount.revision


def count_behind(world: World) -> int:
    """Count the subPaths that show an older version of their volume."""
    mounts = (mount for volume in world.actual for mount in volume.mounts.values())
    return sum(is_behind(mount, key) for mount in mounts for key in mount.subpaths)


def behind_lines(world: World, entry: PodEntry) -> tuple[str, ...]:
    """Say which subPaths of a Pod show an older version of their volume."""
    uid = entry.pod.uid
    return tuple(
        f"subPath {key} (container/volumeMount) shows an older version of volume {mount.spec_name}:"
        f" run volmgr mounts {entry.pod.key} and start the container again"
        for volume in world.actual.of_pod(uid)
        for mount in (volume.mounts[uid],)
        for key in sorted(mount.subpaths)
        if is_behind(mount, key)
    )
