"""downwardAPI on a host in memory: what the files say, when they change, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from volmgr.plugin import (
    Container,
    DownwardFile,
    FieldRef,
    Node,
    ObjectMeta,
    Pod,
    PodSpec,
    Quantity,
    ResourceFieldRef,
    ResourceRequirements,
    SpecError,
)
from volmgr.testing import FakeHost, Volume
from volmgr.testing.node import TestNode, plugins_of, pod
from volmgr_downwardapi.plugin import DownwardApi, DownwardApiSource

LIMITS = {"cpu": Quantity.parse("1.5")}


def field(path: str, shown: str, mode: int | None = None) -> DownwardFile:
    return DownwardFile(path=path, field_ref=FieldRef(field_path=shown), mode=mode)


def resource(path: str, shown: str, divisor: str = "1") -> DownwardFile:
    ref = ResourceFieldRef(resource=shown, container_name="main", divisor=Quantity.parse(divisor))
    return DownwardFile(path=path, resource_field_ref=ref)


def volume(*items: DownwardFile, default_mode: int | None = None) -> Volume:
    main = Container(name="main", resources=ResourceRequirements(limits=LIMITS))
    meta = ObjectMeta(name="web", uid="uid-web", labels={"b": "2", "a": "1"})
    source = DownwardApiSource(items=items, default_mode=default_mode)
    return Volume(DownwardApi(), source, Pod(metadata=meta, spec=PodSpec(containers=(main,))))


def content(host: FakeHost, wanted: Volume, path: str) -> bytes:
    return host.content(wanted.target(host) / path)


def test_labels_are_lines_and_a_limit_is_in_units_of_its_divisor() -> None:
    host = FakeHost()
    wanted = volume(field("labels", "metadata.labels"), resource("about/cpu", "limits.cpu", "1m"))
    wanted.mount(host)
    assert content(host, wanted, "labels") == b'a="1"\nb="2"'
    assert content(host, wanted, "about/cpu") == b"1500"


def test_what_has_no_limit_is_what_the_node_has_or_the_machine() -> None:
    host = FakeHost(memory=1 << 30)
    wanted = volume(resource("memory", "limits.memory"))
    wanted.mount(host)
    assert content(host, wanted, "memory") == str(1 << 30).encode()
    node = Node(metadata=ObjectMeta(name="n"), allocatable={"memory": Quantity.parse("512Mi")})
    wanted.mount(host, node=node, remount=True)
    assert content(host, wanted, "memory") == str(512 << 20).encode()


def test_files_lie_in_memory_with_the_mode_of_each_or_of_the_volume() -> None:
    host = FakeHost()
    wanted = volume(field("a", "metadata.name", 0o400), field("b", "metadata.uid"), default_mode=0o440)
    wanted.mount(host)
    target = wanted.target(host)
    assert host.table[target].startswith("tmpfs")
    files = host.tree(target).values()
    assert "file 400 0:0 b'web'" in files
    assert "file 440 0:0 b'uid-web'" in files


def test_everything_that_is_wrong_is_one_error_and_nothing_is_left() -> None:
    host = FakeHost()
    before = host.tree()
    both = replace(field("c", "metadata.name"), resource_field_ref=ResourceFieldRef(resource="limits.cpu"))
    wanted = volume(field("a", "status.podIP"), field("ok", "metadata.name"), resource("b", "limits.gpu"), both)
    with pytest.raises(SpecError) as refused:
        wanted.mount(host)
    for part in ("a: fieldPath 'status.podIP'", "b: resource 'limits.gpu'", "c: exactly one of fieldRef"):
        assert part in str(refused.value)
    assert host.tree() == before


@pytest.mark.parametrize("path", ["../up", "/abs", "", "a/../../b", "..data"])
def test_a_path_that_leaves_the_volume_is_refused(path: str) -> None:
    with pytest.raises(SpecError, match="invalid path"):
        volume(field(path, "metadata.name")).mount(FakeHost())


LABELS = {"name": "v", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}}


def file_of(node: TestNode, uid: str, name: str) -> bytes | None:
    return node.host.atomic.read(node.host.paths.volume(uid, DownwardApi.name, "v"), name)


def test_a_changed_label_reaches_the_file_and_an_equal_pod_changes_nothing() -> None:
    node = TestNode(FakeHost(), plugins_of(DownwardApi()))
    node.sources_ready()
    (uid,) = node.apply(pod("web", LABELS, uid="uid-1", metadata={"labels": {"a": "1"}}))
    assert node.is_mounted(uid)
    assert file_of(node, uid, "labels") == b'a="1"'
    before = node.world.events.last_number
    node.apply(pod("web", LABELS, uid="uid-1", metadata={"labels": {"a": "1"}}))
    assert node.world.events.last_number == before
    node.apply(pod("web", LABELS, uid="uid-1", metadata={"labels": {"a": "2"}}))
    assert node.is_mounted(uid)
    assert file_of(node, uid, "labels") == b'a="2"'


def test_a_label_that_changed_while_the_daemon_was_down_reaches_the_file_after_it() -> None:
    host = FakeHost()
    node = TestNode(host, plugins_of(DownwardApi()), sources=("directory",))
    node.put_file("web.json", pod("web", LABELS, uid="uid-1", metadata={"labels": {"a": "1"}}))
    node.sources_ready()
    node.start()
    node.settle()
    node.put_file("web.json", pod("web", LABELS, uid="uid-1", metadata={"labels": {"a": "3"}}))
    node.sources_ready()
    assert file_of(node, "uid-1", "labels") == b'a="3"'
