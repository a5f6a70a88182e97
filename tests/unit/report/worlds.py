"""Worlds built by hand: one Pod, a few volumes, and what is wrong with them."""

from dataclasses import replace
from pathlib import Path

from volmgr.actual import ActualVolume, Cause, PodMount
from volmgr.admission import Admission
from volmgr.desired import DesiredMount, DesiredVolume
from volmgr.host.interface import Host
from volmgr.host.paths import Paths
from volmgr.model.meta import ObjectMeta
from volmgr.model.pod import Container, Pod, PodSpec, PodVolume, VolumeMount
from volmgr.model.volume import Facets, Presence, VolumeSpec
from volmgr.next_step import Readiness
from volmgr.operations import Operation, Verb
from volmgr.plugin import Handles, Mount, Mounted, Unmount, Unmounted, VolumePlugin
from volmgr.plugins import Plugins
from volmgr.report.events import EventLog
from volmgr.report.world import PodEntry, Running, World
from volmgr.volume_type import Origin

NOW = 1_800_000_000.0
"""2027-01-15T08:00:00Z."""
TYPE = "kubernetes.io/empty-dir"
FACETS = Facets()


class EmptyDir(VolumePlugin[object]):
    """Serves emptyDir, and does nothing."""

    name = TYPE
    handles = (Handles("emptyDir"),)

    def volume_name(self, spec: VolumeSpec[object]) -> str:
        return spec.name

    def mount(self, request: Mount[object], host: Host) -> Mounted:
        del request, host
        return Mounted()

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        del request, host
        return Unmounted()


def empty_world() -> World:
    """Give the world of a daemon that is ready and has nothing to do."""
    plugins = Plugins()
    plugins.add(EmptyDir(), Origin("volmgr-emptydir", "0.1.0", "emptydir = volmgr_emptydir:EmptyDir"))
    world = World(
        paths=Paths(Path("/var/lib/volmgr")),
        plugins=plugins,
        events=EventLog(lambda: NOW, 100),
        admission=Admission(),
        sources={"directory": ""},
        reconstructed=True,
        readiness=Readiness(unmount=True),
        clock=NOW,
    )
    world.monotonic = 1000.0
    return world


def make_pod(name: str = "web", *names: str, uid: str = "") -> Pod:
    """Give a Pod that uses an emptyDir of each name."""
    return Pod(
        metadata=ObjectMeta(name=name, uid=uid or f"uid-{name}"),
        spec=PodSpec(
            volumes=tuple(PodVolume(name=each) for each in names),
            containers=(
                Container(name="c", volume_mounts=tuple(VolumeMount(name=n, mount_path=f"/{n}") for n in names)),
            ),
        ),
    )


def add_pod(world: World, pod: Pod, *, leaving: bool = False) -> PodEntry:
    """Let a world accept a Pod whose volumes are all resolved, and wanted unless it leaves."""
    entry = PodEntry(pod=pod, source="directory", origin="/manifests/web.yaml", since=NOW - 60, leaving=leaving)
    entry.processed = True
    world.pods[pod.uid] = entry
    if leaving:
        return entry
    living = {**world.readiness.living, pod.uid: pod}
    world.readiness = replace(world.readiness, living=living)
    for volume in pod.spec.volumes:
        want(world, pod, volume.name)
    return entry


def want(world: World, pod: Pod, name: str, facets: Facets = FACETS, revision: str = "") -> None:
    """Let a Pod want a volume."""
    spec: VolumeSpec[object] = VolumeSpec(name=name, type="emptyDir", source=None)
    volume = DesiredVolume(name=unique(pod, name), plugin=TYPE, spec=spec, facets=facets)
    world.desired.add(volume, DesiredMount(pod=pod, spec=spec, outer_names=(name,), revision=revision))


def unique(pod: Pod, name: str) -> str:
    """Give the unique name of a Pod's volume."""
    return f"{TYPE}/{pod.uid}-{name}"


def mounted(
    world: World, pod: Pod, *names: str, state: Presence = Presence.YES, plugin: str = TYPE, problem: str = ""
) -> None:
    """Let volumes of a Pod be mounted, or perhaps mounted."""
    for name in names:
        mount = PodMount(
            pod_uid=pod.uid,
            spec_name=name,
            state=state,
            cause=Cause.MAKING,
            path=world.paths.volume(pod.uid, plugin, name),
            problem=problem,
        )
        volume = world.actual.get(unique(pod, name)) or ActualVolume(name=unique(pod, name), plugin=plugin)
        world.actual.put(volume.name, volume.with_mount(mount))


def fail(world: World, pod: Pod, name: str, error: str, verb: Verb = Verb.MOUNT, times: int = 1) -> None:
    """Let an operation have failed a number of times, ten seconds ago for the first time."""
    for number in range(times):
        world.admission.failed(Operation(verb, unique(pod, name), pod.uid), error, world.monotonic - 10 + number)


def run(world: World, pod: Pod, name: str, verb: Verb = Verb.MOUNT, *, hanging: bool = False, says: str = "") -> None:
    """Let an operation be at work."""
    operation = Operation(verb, unique(pod, name), pod.uid)
    world.running[operation] = Running(operation=operation, since=NOW - 5, progress=says, quarantined=hanging)
