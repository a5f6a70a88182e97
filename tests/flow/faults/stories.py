"""Stories of a node, each of which may be cut short at any of its host calls: the end must be the same.

A story is told on any site (in memory, or on the kernel): `before` is never disturbed, `act` is, and is then done again
as its client would do it.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.flow.core.probes import claim_of, storage
from tests.flow.machine.sites import Site
from tests.unit.sources.claim_bench import asking, pv, pvc
from volmgr.errors import OperationError
from volmgr.host.interface import Host
from volmgr.model.names import escape
from volmgr.plugins import Plugins
from volmgr.testing import Fault, FaultHost, Killed, When
from volmgr.testing.loopdisk import LoopDisk
from volmgr.testing.node import FILES, TestNode, plugins_of, pod
from volmgr_configmap.plugin import ConfigMapVolume
from volmgr_emptydir.plugin import EmptyDir
from volmgr_hostpath.plugin import HostPath
from volmgr_secret.plugin import SecretVolume

CALM = 125.0
"""Seconds; longer than the longest back-off."""
DISK: dict[str, Any] = {"name": "disk", "emptyDir": {}}
MEMORY: dict[str, Any] = {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
SECRET: dict[str, Any] = {"name": "secret", "secret": {"secretName": "login"}}
CONFIG: dict[str, Any] = {"name": "config", "configMap": {"name": "settings"}}
_PATIENCE = 5
_STAMP = re.compile(r"\.\.\d{4}(_\d\d){5}\.\d+")
KEPT = b"what a user wrote"


@functools.cache  # a type remembers nothing, and to register it takes longer than many an act
def _plugins() -> Plugins:
    return plugins_of(EmptyDir(), HostPath(), LoopDisk(), SecretVolume(), ConfigMapVolume())


class Stage:
    """A node on a site, with a bystander Pod whose files no story may touch."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.host: Host = site.host()
        self.faults = FaultHost(self.host)
        self.files: dict[str, tuple[dict[str, Any], ...]] = {}
        self.node = TestNode(self.faults, _plugins(), sources=("api", FILES))
        self.read_sources()
        self.node.apply(pod("bystander", DISK, MEMORY, uid="uid-bystander"))
        self.at_start: list[Fault] = []
        """What happens to the next daemon."""
        self.written: list[Path] = []
        for name in ("disk", "memory"):
            self.write("bystander", name)

    def read_sources(self) -> None:
        """Let both sources be read, as at each start."""
        for name, documents in self.files.items():
            self.node.put_file(name, *documents)
        self.node.sources_ready()

    def put_file(self, name: str, *documents: dict[str, Any]) -> None:
        """Let a manifest file be there."""
        self.files[name] = documents
        self.node.put_file(name, *documents)

    def restart(self) -> None:
        """Start anew on the same site, as after kill -9."""
        self.host = self.site.host()
        self.faults = FaultHost(self.host, self.at_start)
        self.at_start = []
        self.node.host = self.faults
        self.node.start()
        self.read_sources()

    def volume(self, name: str, volume: str) -> Path:
        """Give the directory of a Pod's emptyDir."""
        return self.host.paths.volumes(f"uid-{name}") / escape(EmptyDir.name) / volume

    def write(self, name: str, volume: str) -> None:
        """Let a user write a file that must be kept."""
        path = self.volume(name, volume) / "kept"
        assert self.site.put(path, KEPT)
        self.written.append(path)

    def apply(self, name: str, *volumes: dict[str, Any], uid: str = "", **changes: Any) -> None:  # noqa: ANN401 - as pod()
        """Apply a Pod whose UID is `uid-NAME`."""
        self.node.apply(pod(name, *volumes, uid=uid or f"uid-{name}", **changes))

    def host_path(self, kind: str) -> dict[str, Any]:
        """Give a hostPath volume of something that does not exist yet."""
        return {"name": "path", "hostPath": {"path": str(self.site.top / kind), "type": kind}}

    def calm_down(self) -> None:
        """Let everything be done that is to be done."""
        self.faults.faults.clear()
        self.node.registry.retry()
        self.node.settle()
        self.node.mounts_changed()
        for _ in range(3):
            self.node.advance(CALM)
        self.site.settle()

    def picture(self) -> tuple[list[tuple[Path, str, bool]], dict[Path, str], dict[str, bool]]:
        """Give what is there: mounts, files (of records only that they are), and which Pods are mounted."""
        state = self.host.paths.state
        files = {**self.site.tree(self.host.paths.root), **self.site.tree(self.site.top)}
        seen = {
            Path(_STAMP.sub("..TIME", str(path))): text.split(" ")[0]
            if path.is_relative_to(state) or path.suffix == ".img"
            else _STAMP.sub("..TIME", text)
            for path, text in files.items()
            if not path.is_relative_to(state / "holds")  # named at random
        }
        return self.site.mounts(), seen, {uid: self.node.is_mounted(uid) for uid in self.node.world.pods}

    def check_kept(self) -> None:
        """Find every file that users wrote."""
        for path in self.written:
            assert self.site.content(path) == KEPT, path


@dataclass(frozen=True)
class Story:
    """What happens, in words and deeds."""

    name: str
    act: Callable[[Stage], None]
    before: Callable[[Stage], None] = field(default=lambda _stage: None)
    starts: bool = False
    """It is the start of a daemon that is disturbed."""

    def __str__(self) -> str:
        return self.name


def _with_everything(stage: Stage) -> None:
    """Mount a Pod with three volumes, full of files and of other people's mounts."""
    stage.apply("web", DISK, MEMORY, stage.host_path("DirectoryOrCreate"))
    _fill(stage, "disk", "memory", files=2)  # what many files do is told of each volume alone


def _fill(stage: Stage, *volumes: str, files: int = 70) -> None:
    """Fill volumes, by default with more files than are deleted at once."""
    precious = stage.site.top / "precious"
    stage.site.mkdir(precious)
    stage.site.put(precious / "data", KEPT)
    stage.written.append(precious / "data")
    for volume in volumes:
        path = stage.volume("web", volume)
        for number in range(files):
            stage.site.put(path / f"file-{number}", b"x")
        stage.site.mkdir(path / "foreign")
        stage.site.bind(precious, path / "foreign")


def _disk_with_files(stage: Stage) -> None:
    stage.apply("web", DISK)
    _fill(stage, "disk")


def _memory_with_files(stage: Stage) -> None:
    stage.apply("web", MEMORY)
    _fill(stage, "memory")


def _kept_pod(stage: Stage) -> None:
    stage.apply("web", DISK, MEMORY)
    stage.write("web", "disk")
    stage.write("web", "memory")


def _vanished(stage: Stage) -> None:
    stage.apply("web", MEMORY)
    stage.site.unmount(stage.volume("web", "memory"))


def _turned_read_only(stage: Stage) -> None:
    _kept_pod(stage)
    stage.site.remount(stage.volume("web", "memory"), read_only=True)


def _offer_disk(stage: Stage) -> None:
    image = stage.site.top / "disk.img"
    if stage.site.content(image) is None:
        stage.site.disk_image(image)
    stage.put_file("disk.yaml", *storage("disk", source={"loopDisk": {"path": str(image)}}, size="1Mi"))


def _disk_pod(stage: Stage) -> None:
    stage.apply("web", claim_of("data", "disk"))


def _offer_objects(stage: Stage, **data: str) -> None:
    stage.put_file(
        "objects.yaml",
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": data},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": data},
    )


def _old_objects(stage: Stage) -> None:
    _offer_objects(stage, same="1", changed="2", gone="3")


def _new_objects(stage: Stage) -> None:
    _offer_objects(stage, same="1", changed="4", new="5")


def _object_pod(stage: Stage) -> None:
    stage.apply("web", SECRET, CONFIG, securityContext={"fsGroup": 99})


def _mounted_objects(stage: Stage) -> None:
    _old_objects(stage)
    _object_pod(stage)


def _meddled(stage: Stage) -> None:
    _mounted_objects(stage)
    top = stage.host.paths.volume("uid-web", ConfigMapVolume.name, "config")
    stamp = stage.host.files.read_link(top / "..data")
    assert stamp is not None
    stage.site.put(top / stamp / "changed", b"meddled with")
    stage.host.files.remove_file(top / "same")


def _mounted_disk(stage: Stage) -> None:
    _offer_disk(stage)
    _disk_pod(stage)


def _offer_claim(stage: Stage) -> None:
    """Offer a volume and a claim that have to find each other, and another volume."""
    directory: dict[str, Any] = {"hostPath": {"path": str(stage.site.top / "claimed"), "type": "DirectoryOrCreate"}}
    stage.put_file("pv.yaml", pv("v", **directory), pv("w", "2Gi", **directory))
    stage.put_file("pvc.yaml", pvc("c"))


def _claim_pod(stage: Stage) -> None:
    stage.apply("web", claim_of("data", "c"))


def _ephemeral_pod(stage: Stage) -> None:
    stage.apply("web", {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": asking()}}})


def _claimed(stage: Stage) -> None:
    _offer_claim(stage)
    _claim_pod(stage)
    stage.apply("other", {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": asking()}}})


def _without_claim(stage: Stage) -> None:
    stage.node.delete("uid-web")
    stage.files.pop("pvc.yaml", None)
    stage.node.remove_file("pvc.yaml")


def _replace(stage: Stage) -> None:
    stage.apply("web", DISK, uid="uid-other")


def _reused_uid(stage: Stage) -> None:
    stage.node.delete("uid-web")
    stage.apply("web", {**MEMORY, "name": "other"}, DISK)


def _hold(stage: Stage) -> None:
    stage.node.hold("uid-web", 100)
    stage.node.delete("uid-web")


def _rebooted(stage: Stage) -> None:
    _kept_pod(stage)
    stage.site.reboot()
    stage.written = [path for path in stage.written if path.parent.name != "memory"]


def _left(stage: Stage) -> None:
    _with_everything(stage)
    stage.node.source_lost(FILES, "lost")
    stage.node.delete("uid-web")


def _orphaned(stage: Stage) -> None:
    """Leave what daemons that are long gone left: an empty directory, a mount, a bind, and somebody's data."""
    pods = stage.host.paths.pods
    empty, mounted = (pods / f"uid-{name}" / "volumes" / escape(EmptyDir.name) / "v" for name in ("empty", "mounted"))
    bound, data = pods / "uid-bound" / "volume-subpaths" / "v" / "c" / "0", pods / "uid-data" / "volumes" / "a~b" / "v"
    for path in (empty, mounted, bound, data, stage.site.top / "precious"):
        assert stage.site.mkdir(path)
    for path in (stage.site.top / "precious" / "data", data / "data"):
        assert stage.site.put(path, KEPT)
        stage.written.append(path)
    stage.host.mounts.ensure_mounted(mounted, "tmpfs")
    stage.site.bind(stage.site.top / "precious", bound)


MOUNTS = (
    Story("a disk emptyDir is mounted", lambda stage: stage.apply("web", DISK)),
    Story("an emptyDir is given to a group", lambda stage: stage.apply("web", DISK, securityContext={"fsGroup": 99})),
    Story("a Memory emptyDir is mounted", lambda stage: stage.apply("web", MEMORY)),
    Story("a hostPath directory is made", lambda stage: stage.apply("web", stage.host_path("DirectoryOrCreate"))),
    Story("a hostPath file is made", lambda stage: stage.apply("web", stage.host_path("FileOrCreate"))),
    Story("a Pod is accepted that wants nothing", lambda stage: stage.apply("web")),
    Story("a loop disk is mounted", _disk_pod, _offer_disk),
    Story("a Secret and a ConfigMap are mounted", _object_pod, _old_objects),
    Story("a claim gets a volume", _offer_claim),
    Story("a claim is mounted", _claim_pod, _offer_claim),
    Story("an ephemeral volume is mounted", _ephemeral_pod, _offer_claim),
)
CHANGES = (
    Story(
        "a living Pod's labels change",
        lambda stage: stage.apply("web", DISK, MEMORY, metadata={"labels": {"a": "b"}}),
        _kept_pod,
    ),
    Story("a vanished mount is made again", lambda stage: stage.node.mounts_changed(), _vanished),
    Story("a mount that turned read-only is repaired", lambda stage: stage.node.mounts_changed(), _turned_read_only),
    Story("a Pod that somebody holds is deleted", _hold, _kept_pod),
    Story("a Secret and a ConfigMap change", _new_objects, _mounted_objects),
)
UNMOUNTS = (
    Story("a disk emptyDir is unmounted", lambda stage: stage.node.delete("uid-web"), _disk_with_files),
    Story("a Memory emptyDir is unmounted", lambda stage: stage.node.delete("uid-web"), _memory_with_files),
    Story(
        "a hostPath is given back",
        lambda stage: stage.node.delete("uid-web"),
        lambda stage: stage.apply("web", stage.host_path("DirectoryOrCreate")),
    ),
    Story("a whole Pod is torn down", lambda stage: stage.node.delete("uid-web"), _with_everything),
    Story("a Pod is replaced by one with another UID", _replace, _with_everything),
    Story("a UID is used again with other volumes", _reused_uid, _memory_with_files),
    Story("a Secret and a ConfigMap are unmounted", lambda stage: stage.node.delete("uid-web"), _mounted_objects),
    Story("a loop disk is unmounted", lambda stage: stage.node.delete("uid-web"), _mounted_disk),
    Story("a claim goes with its Pod", _without_claim, _claimed),
    Story("an ephemeral volume goes with its Pod", lambda stage: stage.node.delete("uid-other"), _claimed),
)
STARTS = (
    Story("a daemon starts with everything mounted", Stage.restart, _kept_pod, starts=True),
    Story("a daemon starts after a reboot", Stage.restart, _rebooted, starts=True),
    Story("a daemon starts when a Pod has left", Stage.restart, _left, starts=True),
    Story("a daemon starts with claims", Stage.restart, _claimed, starts=True),
    Story("a daemon starts when a ConfigMap was meddled with", Stage.restart, _meddled, starts=True),
    Story("a daemon starts and finds orphans", Stage.restart, _orphaned, starts=True),
)
MEANT_TO_FAIL_SOFTLY = frozenset({"an emptyDir is given to a group"})
"""kubelet's rule: a volume that its group cannot use is better than none."""
STORIES = (*MOUNTS, *CHANGES, *UNMOUNTS, *STARTS)


@dataclass(frozen=True)
class Ending:
    """How a story ended: what is there, and how many host calls its act took."""

    picture: object
    calls: int


def tell(site: Site, story: Story, fault: Fault | None = None) -> Ending:
    """Tell a story, disturbed by a fault (`at` counts from the beginning of its act), until all is calm."""
    stage = Stage(site)
    story.before(stage)
    begin = 0 if story.starts else len(stage.faults.trace)
    if fault is not None:
        planned = replace(fault, at=begin + fault.at)
        stage.at_start = [planned] if story.starts else []
        stage.faults.faults = [] if story.starts else [planned]
    for _ in range(_PATIENCE):
        try:
            story.act(stage)
        except Killed:
            stage.restart()
        except OperationError:  # the client hears of it, and tries again
            continue
        else:
            break
    calls = len(stage.faults.trace) - begin
    if fault is not None and story.starts:
        stage.restart()  # what could not be read at one start was left alone; at the next it can be read
    stage.calm_down()
    stage.check_kept()
    assert not stage.node.world.running
    return Ending(stage.picture(), calls)


def kills(calls: int) -> Iterator[Fault]:
    """Give every kill of an act with so many calls."""
    for number, when in itertools.product(range(1, calls + 1), When):
        yield Fault.kill(number, when)
