"""Events of Pods that wait: once for what there is not, once when it takes too long, and never for a handshake."""

from __future__ import annotations

from typing import Any

import pytest

from tests.flow.core.probes import Disk, Plain, Script, claim_of, needs, plain, storage
from volmgr.config import Config
from volmgr.errors import TransientError
from volmgr.messages import DriverAppeared, DriverVanished
from volmgr.model.meta import ObjectRef
from volmgr.report.events import Event, Severity
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod
from volmgr.volume_type import Origin
from volmgr_secret.plugin import SecretVolume

LOGIN = ObjectRef("Secret", "default", "login")
SECRET: dict[str, Any] = {"name": "s", "secret": {"secretName": "login"}}
LATE = 123.0
"""Kubelet's podAttachAndMountTimeout in seconds."""


def login(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": data}


@pytest.fixture
def node(host: FakeHost, plain_script: Script, disk_script: Script, config: Config) -> TestNode:
    plugins = plugins_of(Plain(plain_script), Disk(disk_script), SecretVolume())
    return TestNode(host, plugins, config, sources=("directory",))


@pytest.fixture
def cluster_node(host: FakeHost, plain_script: Script, disk_script: Script) -> TestNode:
    """A node of a cluster, whose Pods were read."""
    plugins = plugins_of(Plain(plain_script), Disk(disk_script), SecretVolume())
    kinds = ("Secret", "PersistentVolumeClaim", "PersistentVolume")
    node = TestNode(host, plugins, Config(bind_claims=False), sources=("kubernetes",), fetched_kinds=kinds)
    node.sources_ready()
    return node


def failures(node: TestNode) -> list[Event]:
    return [each for each in node.world.events.after(0) if each.reason in {"FailedMount", "FailedMapVolume"}]


def texts(node: TestNode) -> list[str]:
    return [each.message for each in failures(node)]


def test_an_object_that_the_server_has_not_is_said_once_and_again_when_it_has_gone_anew(
    cluster_node: TestNode,
) -> None:
    node = cluster_node
    node.serve(pod("web", SECRET, plain("p"), uid="u1"))
    assert texts(node) == []  # it is being read
    node.registry.absent_object(LOGIN)
    node.settle()
    (said,) = failures(node)
    assert (said.severity, said.reason, said.pod, said.pod_uid) == (
        Severity.WARNING,
        "FailedMount",
        "default/web",
        "u1",
    )
    assert said.message == "mount: waits for Secret default/login: the API server has none"
    assert said.volume == "kubernetes.io/secret/u1-s"
    node.serve(pod("web", SECRET, plain("p"), uid="u1", status={"phase": "Pending"}))
    node.registry.absent_object(LOGIN)
    node.settle()
    assert len(failures(node)) == 1
    node.serve(login(user="u"))
    assert node.is_mounted("web")
    node.serve_no_more(login())
    node.registry.absent_object(LOGIN)
    node.settle()
    assert len(failures(node)) == 2
    assert failures(node)[1].count == 2


def test_what_cannot_be_read_is_not_said_to_be_absent(cluster_node: TestNode) -> None:
    node = cluster_node
    node.serve(pod("web", SECRET, uid="u1"))
    node.registry.await_object(LOGIN, "https://10.0.0.1:6443 does not answer: connection refused")
    node.settle()
    assert texts(node) == []


def test_a_claim_says_each_reason_why_it_is_not_there_once(cluster_node: TestNode) -> None:
    node = cluster_node
    claim, volume = ObjectRef("PersistentVolumeClaim", "default", "d1"), ObjectRef("PersistentVolume", "", "pv-d1")
    bound, pv = storage("d1")[1], storage("d1")[0]
    node.serve(pod("web", claim_of("d", "d1"), uid="u1"))
    assert texts(node) == []
    for _ in range(3):
        node.registry.absent_object(claim)
        node.settle()
    unbound = {**bound, "spec": {key: value for key, value in bound["spec"].items() if key != "volumeName"}}
    node.serve({**unbound, "status": {"phase": "Pending"}})
    node.serve({**bound, "status": {"phase": "Bound"}})
    assert len(texts(node)) == 2  # the volume is being read
    for _ in range(3):
        node.registry.absent_object(volume)
        node.settle()
    assert texts(node) == [
        "PersistentVolumeClaim default/d1 does not exist: the API server has none",
        "PVC default/d1: PVC is not bound: its phase is Pending",
        f"{volume}, to which {claim} is bound, does not exist: the API server has none",
    ]
    node.serve(pv)
    assert node.is_mounted("web")


def test_what_manifests_do_not_have_is_said_when_they_were_read_whole(node: TestNode) -> None:
    node.put_file("pod", pod("web", SECRET, uid="u1"))
    assert texts(node) == []
    node.sources_ready()
    assert texts(node) == ["mount: waits for Secret default/login: add it to the manifests"]
    node.put_file("login", login(user="u"))
    assert node.is_mounted("web")
    assert len(texts(node)) == 1


def test_a_start_says_nothing_of_secrets_that_are_read_after_their_pods(node: TestNode) -> None:
    node.put_file("login", login(user="u"))
    node.put_file("pod", pod("web", SECRET, uid="u1"))
    node.sources_ready()
    node.start()
    node.settle()
    node.put_file("login", login(user="u"))
    node.sources_ready()
    assert node.is_mounted("web")
    assert texts(node) == []


def test_a_wish_that_changes_its_reason_is_said_anew(node: TestNode, plain_script: Script) -> None:
    node.sources_ready()
    plain_script.references = needs("first")
    node.put_file("pod", pod("web", plain("p"), uid="u1"))
    plain_script.references = needs("second")
    node.put_file("pod", pod("web", plain("p"), uid="u1", metadata={"labels": {"a": "b"}}))
    assert texts(node) == [
        "mount: waits for ConfigMap default/first: add it to the manifests",
        "mount: waits for ConfigMap default/second: add it to the manifests",
    ]


def test_of_a_block_volume_it_is_the_mapping_that_fails(node: TestNode, disk_script: Script) -> None:
    node.sources_ready()
    disk_script.references = needs("first")
    node.put_file("all", *storage("d1", block=True), pod("web", claim_of("d", "d1"), uid="u1", devices=["d"]))
    (said,) = failures(node)
    assert said.reason == "FailedMapVolume"
    assert said.message == "mount: waits for ConfigMap default/first: add it to the manifests"


def test_a_driver_that_comes_and_goes_is_said_once_and_waited_for_without_trying(
    node: TestNode, plain_script: Script
) -> None:
    node.sources_ready()
    node.reconciler.post(DriverVanished(Plain.name))
    node.put_file("pod", pod("web", plain("p"), uid="u1"))
    node.advance(60)
    assert (plain_script.count("mount"), len(failures(node))) == (0, 1)
    node.reconciler.post(DriverAppeared(Plain(plain_script), Origin("test-plain", "0", "test")))
    node.settle()
    assert node.is_mounted("web")
    assert plain_script.count("mount") == 1


def test_what_a_type_waits_for_is_tried_ten_times_a_minute_at_most_and_is_one_event(
    node: TestNode, plain_script: Script
) -> None:
    node.sources_ready()
    error = TransientError("driver d is not registered", waits_for="driver d")
    plain_script.fail("mount", *[error] * 100)
    node.put_file("pod", pod("web", plain("p"), uid="u1"))
    node.advance(60)
    assert 1 < plain_script.count("mount") <= 10
    assert set(texts(node)) == {"mount: driver d is not registered"}
    assert failures(node)[-1].count == plain_script.count("mount")


def test_a_pod_whose_volumes_are_not_there_in_time_says_so_once_in_kubelets_words(node: TestNode) -> None:
    node.sources_ready()
    node.put_file("pod", pod("web", SECRET, plain("good"), claim_of("data", "none"), uid="u1"))
    node.advance(LATE - 1)
    assert not [text for text in texts(node) if "timed out" in text]
    node.advance(1)
    said = failures(node)[-1]
    assert said.reason == "FailedMount"
    assert said.message.startswith(
        "Unable to attach or mount volumes: unmounted volumes=[data s], unattached volumes=[], failed to process "
        "volumes=[data]: timed out waiting for the condition; "
    )
    assert "waits for Secret default/login: add it to the manifests" in said.message
    assert "good" not in said.message
    before = len(failures(node))
    node.advance(10 * LATE)
    assert len(failures(node)) == before


def test_a_pod_that_waits_again_has_its_time_again(node: TestNode) -> None:
    node.sources_ready()
    node.put_file("login", login(user="u"))
    node.put_file("pod", pod("web", SECRET, uid="u1"))
    assert node.is_mounted("web")
    node.advance(2 * LATE)
    assert texts(node) == []
    node.remove_file("login")
    node.advance(LATE)
    assert len([text for text in texts(node) if "timed out" in text]) == 1


def test_pods_have_their_time_one_after_the_other_and_those_that_leave_are_not_spoken_of(node: TestNode) -> None:
    node.sources_ready()
    for number in range(3):
        node.put_file(f"pod{number}", pod(f"web{number}", SECRET, uid=f"u{number}"))
        node.advance(10)
    node.remove_file("pod1")
    node.advance(LATE)
    late = [each.pod_uid for each in failures(node) if "timed out" in each.message]
    assert late == ["u0", "u2"]


def test_who_waits_for_a_controller_to_attach_hears_nothing_until_it_takes_too_long(
    host: FakeHost, disk_script: Script
) -> None:
    node = TestNode(host, plugins_of(Disk(disk_script)), Config(controller_attach=True), sources=("directory",))
    node.sources_ready()
    node.put_file("all", *storage("d1"), pod("web", claim_of("data", "d1"), uid="u1"))
    node.advance(LATE - 1)
    assert texts(node) == []
    node.advance(1)
    (text,) = texts(node)
    assert text.startswith("Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[data], ")


def test_the_time_can_be_set(host: FakeHost, plain_script: Script) -> None:
    config = Config(wait_event_after=10)
    node = TestNode(host, plugins_of(Plain(plain_script), SecretVolume()), config, sources=("directory",))
    node.sources_ready()
    node.put_file("pod", pod("web", SECRET, uid="u1"))
    node.advance(10)
    assert "timed out" in texts(node)[-1]
    with pytest.raises(ValueError, match="wait_event_after is 0"):
        Config(wait_event_after=0)


def test_a_claim_that_gets_its_volume_when_all_sources_were_read_is_no_failure(node: TestNode) -> None:
    volume, wanted = storage("c")
    del wanted["spec"]["volumeName"]
    documents = (volume, wanted, pod("shop", claim_of("data", "c"), uid="u1"))
    node.put_file("shop.yaml", *documents)
    assert node.world.pods["u1"].awaited["data"].endswith("and directory was not")
    node.sources_ready()
    assert (node.is_mounted("shop"), texts(node)) == (True, [])
