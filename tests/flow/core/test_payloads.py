"""Secrets and ConfigMaps of a whole node: waiting for them, their changes, restarts, and kills at any call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from volmgr import manifest, root
from volmgr.errors import OperationError
from volmgr.report.why import why
from volmgr.testing import FakeHost, Fault, FaultHost, Killed, When
from volmgr.testing.node import FILES, TestNode, plugins_of, pod
from volmgr_configmap.plugin import ConfigMapVolume
from volmgr_secret.plugin import SecretVolume

SECRET: dict[str, Any] = {"name": "s", "secret": {"secretName": "login"}}
CONFIG: dict[str, Any] = {"name": "c", "configMap": {"name": "settings"}}
CALM = 125.0
KUBELET_STAMP = "..2026_01_02_03_04_05.678901234"


def secret(name: str = "login", **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


def config(name: str = "settings", **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
def node(host: FakeHost) -> TestNode:
    return started(host)


def started(host: FakeHost | FaultHost) -> TestNode:
    """Give a node whose sources were read."""
    node = TestNode(host, plugins_of(SecretVolume(), ConfigMapVolume()), sources=("api", FILES))
    node.sources_ready()
    return node


def offer_the_same(node: TestNode, *documents: Mapping[str, Any]) -> None:
    """Let a file be read that is still the very same one as before the daemon's start."""
    parsed = manifest.parse("\n---\n".join(map(json.dumps, documents)).encode(), "all.yaml", node.plugins)
    node.registry.offer(FILES, "all.yaml", "unchanged", parsed)
    node.settle()


def volume(host: FakeHost, uid: str, name: str) -> Path:
    plugin = {"s": SecretVolume.name, "c": ConfigMapVolume.name}[name[0]]
    return host.paths.volume(uid, plugin, name)


def content(host: FakeHost, uid: str, name: str) -> dict[str, str]:
    """Give a volume's files by their visible names."""
    top = volume(host, uid, name)
    return {each: host.content(top / each).decode() for each in host.files.names(top) if not each.startswith("..")}


def trace_of(node: TestNode) -> FaultHost:
    """Let what the node does from now on be counted."""
    assert isinstance(node.host, FaultHost)
    node.host.trace.clear()
    return node.host


def reasons(node: TestNode, name: str) -> str:
    return str(why(node.world, name))


def test_a_pod_waits_for_its_secret_with_a_reason_and_is_mounted_when_it_appears(
    node: TestNode, host: FakeHost
) -> None:
    node.apply(pod("web", SECRET, CONFIG, uid="u1"))
    assert not node.is_mounted("web")
    assert "Secret default/login" in reasons(node, "web")
    node.put_file("config.yaml", config(level="3"))
    assert content(host, "u1", "c") == {"level": "3"}
    node.put_file("secret.yaml", secret(user="admin"))
    assert node.is_mounted("web")
    assert content(host, "u1", "s") == {"user": "admin"}


def test_an_optional_object_that_is_missing_is_an_empty_volume_that_fills_and_empties(
    node: TestNode, host: FakeHost
) -> None:
    node.apply(pod("web", {"name": "c", "configMap": {"name": "settings", "optional": True}}, uid="u1"))
    assert node.is_mounted("web")
    assert content(host, "u1", "c") == {}
    node.put_file("config.yaml", config(level="3"))
    assert content(host, "u1", "c") == {"level": "3"}
    node.remove_file("config.yaml")
    node.advance(CALM)
    assert content(host, "u1", "c") == {}


def test_an_object_that_vanishes_leaves_the_files_of_a_living_pod(node: TestNode, host: FakeHost) -> None:
    node.put_file("config.yaml", config(level="3"))
    node.apply(pod("web", CONFIG, uid="u1"))
    node.remove_file("config.yaml")
    node.advance(CALM)
    assert content(host, "u1", "c") == {"level": "3"}


def test_a_change_touches_only_the_volumes_that_use_it(host: FakeHost) -> None:
    node = started(FaultHost(host))
    node.put_file("a.yaml", config(level="3"))
    node.put_file("b.yaml", config("other", level="3"), secret(user="admin"))
    users = [pod(f"web{n}", CONFIG, SECRET, uid=f"u{n}") for n in range(2)]
    node.apply(*users, pod("other", {"name": "c", "configMap": {"name": "other"}}, uid="u9"))
    trace = trace_of(node)
    node.put_file("a.yaml", config(level="4"))
    written = {str(call.args[0]) for call in trace.trace if call.verb == "files.make_tree"}
    assert {Path(path).parent for path in written} == {volume(host, "u0", "c"), volume(host, "u1", "c")}
    touched = {path for call in trace.trace for path in map(str, call.args) if "/pods/" in path}
    assert not [path for path in touched if "u9" in path or "~secret" in path]
    assert content(host, "u1", "c") == {"level": "4"}
    trace.trace.clear()
    node.put_file("a.yaml", config(level="4"))  # the same again: another revision, the same files
    assert "files.make_tree" not in trace.verbs


def test_a_change_that_cannot_be_written_leaves_the_old_files_is_named_and_tried_again(host: FakeHost) -> None:
    error = OperationError("cannot write: ENOSPC (no space left on device)")
    node = started(FaultHost(host, [Fault(2, error, verb="files.make_tree")]))
    node.put_file("secret.yaml", secret(user="admin"))
    node.apply(pod("web", SECRET, uid="u1"))
    node.put_file("secret.yaml", secret(user="root"))
    assert content(host, "u1", "s") == {"user": "admin"}
    assert volume(host, "u1", "s") in host.table
    assert "no space left" in reasons(node, "web")
    node.advance(CALM)
    assert content(host, "u1", "s") == {"user": "root"}
    assert node.is_mounted("web")


def test_a_secret_in_use_is_waited_for_with_its_holder_s_name_and_goes_with_it(node: TestNode, host: FakeHost) -> None:
    node.put_file("secret.yaml", secret(user="admin"))
    node.apply(pod("web", SECRET, uid="u1"), pod("other", SECRET, uid="u2"))
    host.busy[volume(host, "u1", "s")] = ("sleep (4711)",)
    node.delete("u1")
    node.delete("u2")
    assert host.files.info(volume(host, "u2", "s")) is None
    assert any("sleep (4711)" in text for text in node.warnings())
    host.busy.clear()
    node.advance(CALM)
    assert host.files.info(volume(host, "u1", "s")) is None


def test_a_start_restores_lost_links_and_meddled_content_once_while_the_pod_counts_as_mounted(host: FakeHost) -> None:
    node = started(FaultHost(host))
    documents: tuple[Mapping[str, Any], ...] = (config(level="3", more="x"), secret(user="admin"))
    offer_the_same(node, *documents)
    node.apply(pod("web", CONFIG, SECRET, uid="u1"))
    host.machine.unlink(volume(host, "u1", "c") / "more")
    host.put(volume(host, "u1", "c") / "level", b"99")
    node.start()
    node.settle()
    offer_the_same(node, *documents)
    node.sources_ready()
    assert node.is_mounted("web")
    assert content(host, "u1", "c") == {"level": "99"}
    node.advance(1.0)
    assert content(host, "u1", "c") == {"level": "3", "more": "x"}
    trace = trace_of(node)
    node.advance(CALM)
    assert not [verb for verb in trace.verbs if verb.startswith("files.links")]


def test_a_start_looks_into_a_few_volumes_at_a_time_so_that_new_pods_come_in_between(host: FakeHost) -> None:
    node = started(FaultHost(host))
    offer_the_same(node, config(level="3"))
    node.apply(*(pod(f"web{n}", CONFIG, uid=f"u{n}") for n in range(100)))
    node.start()
    trace = trace_of(node)
    offer_the_same(node, config(level="3"))
    node.sources_ready()
    assert all(node.is_mounted(f"web{n}") for n in range(100))
    assert "files.has_tree" not in trace.verbs
    node.advance(0.015)
    node.apply(pod("new", CONFIG, uid="new"))
    assert node.is_mounted("new")
    assert 0 < trace.verbs.count("files.has_tree") < 100
    node.advance(1.0)
    assert trace.verbs.count("files.has_tree") == 100


def test_after_a_reboot_memory_is_filled_again(node: TestNode, host: FakeHost) -> None:
    node.put_file("all.yaml", secret(user="admin"))
    node.apply(pod("web", SECRET, uid="u1"))
    host.reboot()
    node.start()
    node.put_file("all.yaml", secret(user="admin"))
    node.sources_ready()
    assert node.is_mounted("web")
    assert content(host, "u1", "s") == {"user": "admin"}
    assert volume(host, "u1", "s") in host.table


def written_by_kubelet(host: FakeHost, uid: str, name: str, key: str, text: str) -> None:
    """Leave a volume as a kubelet does: no record of ours, its marker, its link, one file."""
    top = volume(host, uid, name)
    host.mkdir(top, 0o777)
    marker = host.paths.pod_plugin(uid, "kubernetes.io/empty-dir", f"wrapped_{name}") / "ready"
    host.mkdir(marker.parent, 0o750)
    host.put(marker)
    if name == "s":
        host.machine.mount(top, "tmpfs", source="tmpfs")
    host.mkdir(top / KUBELET_STAMP)
    host.put(top / KUBELET_STAMP / key, text.encode())
    host.link(top / "..data", KUBELET_STAMP)
    host.link(top / key, f"..data/{key}")


def test_what_a_kubelet_wrote_is_taken_over_as_it_is_and_torn_down_where_its_pod_is_gone(host: FakeHost) -> None:
    for uid in ("u1", "gone"):
        written_by_kubelet(host, uid, "c", "level", "3")
        written_by_kubelet(host, uid, "s", "user", "admin")
    root.mark_adopted(host)
    node = TestNode(host, plugins_of(SecretVolume(), ConfigMapVolume()), sources=("api", FILES))
    node.put_file("all.yaml", config(level="3"), secret(user="admin"))
    node.apply(pod("web", CONFIG, SECRET, uid="u1"))
    node.sources_ready()
    assert node.is_mounted("web")
    assert host.files.read_link(volume(host, "u1", "c") / "..data") == KUBELET_STAMP
    assert host.files.read_link(volume(host, "u1", "s") / "..data") == KUBELET_STAMP
    assert host.files.info(host.paths.pod("gone")) is None
    assert list(host.table) == [volume(host, "u1", "s")]
    node.put_file("all.yaml", config(level="4"), secret(user="admin"))
    assert content(host, "u1", "c") == {"level": "4"}


@pytest.mark.parametrize("when", list(When))
def test_a_node_that_is_killed_at_any_call_of_a_change_has_the_new_files_after_its_next_start(when: When) -> None:
    old, new = config(level="3", gone="x"), config(level="4", added="y")
    for number in range(1, 200):
        host = FakeHost()
        node = started(FaultHost(host))
        node.put_file("all.yaml", old)
        node.apply(pod("web", CONFIG, uid="u1"))
        node.host = killer = FaultHost(host)
        node.start()
        node.put_file("all.yaml", old)
        node.sources_ready()
        killer.faults.append(Fault.kill(len(killer.trace) + number, when))
        try:
            node.put_file("all.yaml", new)
        except Killed:
            node.host = host
            node.start()
            node.put_file("all.yaml", new)
            node.sources_ready()
            node.advance(1.0)
        assert content(host, "u1", "c") == {"level": "4", "added": "y"}, str(killer.trace[-1])
        names = host.files.names(volume(host, "u1", "c"))
        assert [name for name in names if not name.startswith("..2")] == ["..data", "added", "level"]
        assert len(names) == 4
        if not killer.dead:
            return
    pytest.fail("a change made two hundred calls")
