"""Values that no mount could take: said at once, nothing is done for them, and what is mounted already stays."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from volmgr.plugin import Handles, Host, Mount, Mounted, Pod, SpecError, Unmount, Unmounted, VolumePlugin, VolumeSpec
from volmgr.report.why import why_lines
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod
from volmgr_emptydir.plugin import EmptyDir
from volmgr_local.plugin import Local


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteSource:
    text: str = ""


class Lenient(VolumePlugin[NoteSource]):
    """Mounts whatever its source says."""

    name = "example.com/note"
    handles = (Handles("note", source=NoteSource),)

    def mount(self, request: Mount[NoteSource], host: Host) -> Mounted:
        host.files.ensure_directory(request.target, 0o750)
        return Mounted()

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        host.files.remove_directory(request.target)
        return Unmounted()


class Strict(Lenient):
    """A later version, which takes less."""

    name = "example.com/note"

    def check(self, spec: VolumeSpec[NoteSource], pod: Pod | None) -> None:
        del pod
        if spec.source.text.startswith("-"):
            raise SpecError("text begins with a dash; leave it out")


def started(*types: VolumePlugin[NoteSource] | EmptyDir | Local) -> TestNode:
    node = TestNode(FakeHost(), plugins_of(*types))
    node.sources_ready()
    return node


def test_why_says_it_at_once_and_the_other_volumes_are_mounted() -> None:
    node = started(EmptyDir())
    good: dict[str, object] = {"name": "good", "emptyDir": {}}
    bad: dict[str, object] = {"name": "bad", "emptyDir": {"medium": "disk"}}
    node.apply(pod("web", good, bad, uid="uid-web"))
    (line,) = [line for line in why_lines(node.world, "web") if "volume bad" in line]
    assert 'unknown storage medium "disk"; write Memory' in line
    assert "failed" not in line
    assert [volume.spec.name for volume in node.world.desired.of_pod("uid-web")] == ["good"]
    assert not node.is_mounted("web")
    assert node.warnings() == ('unknown storage medium "disk"; write Memory, HugePages, HugePages-<size> or nothing',)


def test_it_is_mounted_once_the_manifest_is_right() -> None:
    node = started(EmptyDir())
    node.apply(pod("web", {"name": "v", "emptyDir": {"sizeLimit": "-1Gi"}}, uid="uid-web"))
    assert not node.is_mounted("web")
    node.delete("uid-web")
    node.advance(600)
    node.apply(pod("web", {"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}, uid="uid-web"))
    node.advance(1)
    assert node.is_mounted("web")


def test_nothing_of_the_node_is_mounted_for_it() -> None:
    node = started(Local())
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-1"}}
    size = {"storage": "1Gi"}
    modes = ["ReadWriteOnce"]
    node.put_file(
        "all.json",
        {**volume, "spec": {"capacity": size, "accessModes": modes, "local": {"path": "/srv/../etc"}}},
        {**claim, "spec": {"accessModes": modes, "resources": {"requests": size}, "volumeName": "pv-1"}},
        pod("web", {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}, uid="uid-web"),
    )
    node.advance(5)
    assert "invalid local.path '/srv/../etc'" in "\n".join(why_lines(node.world, "web"))
    assert list(node.world.desired) == []
    assert list(node.world.actual) == []


@pytest.mark.parametrize("damaged", [False, True])
def test_what_a_former_version_mounted_stays_as_long_as_its_pod(damaged: bool) -> None:
    node = started(Lenient())
    node.apply(pod("web", {"name": "v", "note": {"text": "-x"}}, uid="uid-web"))
    assert node.is_mounted("web")
    there = Path("/var/lib/volmgr/pods/uid-web/volumes/example.com~note/v")
    if damaged:
        record = node.host.paths.state / "mounts" / "uid-web"
        assert node.host.files.names(record)
        for name in node.host.files.names(record):
            node.host.files.write(record / name, b"{", 0o600)
    node.plugins = plugins_of(Strict())
    node.start()
    node.sources_ready()
    node.advance(600)
    assert node.host.files.info(there) is not None
    assert "text begins with a dash" in "\n".join(why_lines(node.world, "web"))
    node.delete("uid-web")
    node.advance(600)
    assert damaged or node.host.files.info(there) is None


def test_what_a_running_daemon_mounted_stays_when_the_type_is_exchanged() -> None:
    node = started(Lenient())
    node.apply(pod("web", {"name": "v", "note": {"text": "-x"}}, uid="uid-web"))
    before = [volume.mounts for volume in node.world.actual]
    node.world.plugins.types[Lenient.name].plugin = Strict()
    node.apply(pod("web", {"name": "v", "note": {"text": "-x"}}, uid="uid-web", metadata={"labels": {"a": "b"}}))
    node.advance(600)
    assert [volume.mounts for volume in node.world.actual] == before
    assert "text begins with a dash" in "\n".join(why_lines(node.world, "web"))
