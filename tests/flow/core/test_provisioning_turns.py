"""Volumes that are made for claims, where claims, classes and records turn while something is under way."""

from __future__ import annotations

import pytest

from tests.flow.core.pool import NAME, Pool, PoolProvisioner
from tests.flow.core.probes import Script, claim_of
from tests.flow.core.test_provisioning import NAMED, Medium, claim, delete_data, fast, new_node, volume, wanted
from tests.unit.sources.claim_bench import GIB, Document, asking, pv, pvc
from volmgr.errors import OperationError, TransientError, UncertainError
from volmgr.model.volume import Facets
from volmgr.report.claims import claims_report
from volmgr.report.deletion import check_deletable
from volmgr.testing import FakeHost, Fault, FaultHost, Killed
from volmgr.testing.node import FILES, TestNode, plugins_of, pod
from volmgr.volume_type import Origin

OTHER = "other.example.com"


@pytest.fixture
def pool() -> Pool:
    return Pool()


@pytest.fixture
def node(host: FakeHost, pool: Pool) -> TestNode:
    node = new_node(host, pool)
    node.sources_ready()
    return node


class OtherPool(PoolProvisioner):
    """Another storage."""

    def serves(self, provisioner: str) -> bool:
        return provisioner == OTHER


@pytest.fixture
def other(node: TestNode) -> Pool:
    other = Pool()
    node.plugins.provisioners.append((OtherPool(other), Origin("test-other", "0", "test")))
    return other


def scratch() -> Document:
    """Give a Pod that brings a claim along."""
    template = {"volumeClaimTemplate": {"spec": {**asking(), "storageClassName": "fast"}}}
    return pod("web", {"name": "scratch", "ephemeral": template}, uid="u1")


# --- what is to be deleted ---


def test_a_volume_goes_with_its_pod_once_the_node_has_put_it_away(host: FakeHost, pool: Pool) -> None:
    script = Script(facets=Facets(device=True))
    node = TestNode(host, plugins_of(Medium(script)), sources=("api", FILES))
    node.plugins.provisioners.append((PoolProvisioner(pool), Origin("test-pool", "0", "test")))
    node.sources_ready()
    node.put_file("class.yaml", fast())
    node.put_file("web.yaml", scratch())
    (made,) = pool.made
    script.fail("unmount_device", *[OperationError("the disk is busy")] * 3)
    node.remove_file("web.yaml")
    for _ in range(2):  # whatever else happens meanwhile
        node.put_file("other.yaml", pod("other", uid="u2"))
        node.remove_file("other.yaml")
        node.advance(0.1)
    assert pool.volumes.keys() == {made}
    assert "still set up on this node" in node.world.unfinished[made]
    node.advance(60)
    assert (pool.volumes, node.world.unfinished) == ({}, {})


# --- what was begun, and is to be ended ---


def test_a_claim_that_comes_back_and_vanishes_again_loses_nothing_to_what_was_begun_before(
    node: TestNode, pool: Pool
) -> None:
    node.put_file("class.yaml", fast())
    pool.before += [UncertainError("no answer in time")] * 4
    node.put_file("c.yaml", wanted())
    node.remove_file("c.yaml")
    node.advance(0.5)
    node.advance(1)  # finding out waits for longer than the claim does when it is back
    node.put_file("c.yaml", wanted())
    assert (claim(node).phase, claim(node).volume_name) == ("Bound", NAMED)
    node.remove_file("c.yaml")
    node.advance(1000)
    assert volume(node).phase == "Released"
    assert pool.calls == [f"provision {NAMED}"] * 5


def test_what_was_begun_is_ended_by_who_began_it_whatever_its_class_says_now(
    node: TestNode, pool: Pool, other: Pool
) -> None:
    node.put_file("class.yaml", fast())
    pool.after.append(UncertainError("no answer in time"))
    node.put_file("c.yaml", wanted())
    node.put_file("class.yaml", {**fast(), "provisioner": OTHER})
    assert (claim(node).phase, claim(node).volume_name) == ("Bound", NAMED), claim(node).message
    assert (pool.made, other.calls) == ([NAMED], [])


def test_another_default_class_does_not_part_a_claim_from_what_was_begun(
    node: TestNode, pool: Pool, other: Pool
) -> None:
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    pool.after.append(UncertainError("no answer in time"))
    node.put_file("class.yaml", {**fast(), "metadata": {"name": "fast", "annotations": default}})
    node.put_file("c.yaml", pvc("c", "1Gi"))
    node.put_file("class.yaml", {**fast(), "metadata": {"name": "slow", "annotations": default}, "provisioner": OTHER})
    node.advance(60)
    assert (claim(node).phase, claim(node).volume_name) == ("Bound", NAMED), claim(node).message
    assert (pool.made, other.calls) == ([NAMED], [])


def test_what_was_begun_with_what_cannot_be_had_takes_what_its_class_says_now(host: FakeHost, pool: Pool) -> None:
    host_to_be_killed = FaultHost(host, [])
    node = new_node(host_to_be_killed, pool)
    node.sources_ready()
    node.put_file("class.yaml", fast(parameters={"wrong": "yes"}))
    host_to_be_killed.faults = [Fault.kill(1, verb="files.remove_file")]
    with pytest.raises(Killed):
        node.put_file("c.yaml", wanted())
    assert len(host.files.names(host.paths.state / "provisioned")) == 1
    again = new_node(host, pool)
    again.put_file("class.yaml", fast(parameters={"wrong": "yes"}))
    again.put_file("c.yaml", wanted())
    again.sources_ready()
    assert "there is no such parameter" in claim(again).message
    again.put_file("class.yaml", fast())
    assert (claim(again).phase, claim(again).volume_name) == ("Bound", NAMED), claim(again).message


def test_an_error_of_one_call_does_not_forget_what_an_earlier_one_may_have_made(node: TestNode, pool: Pool) -> None:
    node.put_file("class.yaml", fast())
    pool.after.append(UncertainError("no answer in time"))
    pool.before += [None, TransientError("who are you?")]
    node.put_file("c.yaml", wanted())
    node.advance(0.5)
    assert pool.calls == [f"provision {NAMED}"] * 2
    node.remove_file("c.yaml")
    assert volume(node).phase == "Released"


def test_what_the_class_says_now_counts_once_what_was_begun_is_refused(node: TestNode, pool: Pool) -> None:
    node.put_file("class.yaml", fast())
    pool.before += [UncertainError("no answer in time"), TransientError("what is tier?")]
    node.put_file("c.yaml", wanted())
    node.put_file("class.yaml", fast(parameters={"tier": "1"}, reclaimPolicy="Retain"))
    assert claim(node).phase == "Bound"
    assert volume(node).reclaim_policy == "Retain"


def test_whatever_cannot_be_recorded_once_a_volume_that_goes_with_its_pod_goes(host: FakeHost, pool: Pool) -> None:
    full = FaultHost(host)
    node = new_node(full, pool)
    node.sources_ready()
    node.put_file("class.yaml", fast())
    for number in range(1, 20):
        node.put_file("web.yaml", scratch())
        assert node.is_mounted("web")
        written = full.verbs.count("files.write")
        full.faults = [Fault(written + number, OperationError("no space left on device"), verb="files.write")]
        node.remove_file("web.yaml")
        node.registry.retry()
        node.advance(1000)
        assert pool.volumes == {}, f"write {number} failed: {pool.calls}"
        assert claims_report(node.world).volumes == ()
        if full.verbs.count("files.write") < written + number:
            return
    pytest.fail("there were more writes than expected")


# --- many claims ---


def _last(count: int) -> int:
    return count - 1


def test_storage_that_is_slow_keeps_no_claim_of_another_waiting(node: TestNode, pool: Pool, other: Pool) -> None:
    node.choose = _last  # what was begun first hangs longest
    slow = {**fast(), "metadata": {"name": "other"}, "provisioner": OTHER}
    node.put_file("classes.yaml", fast(), slow)
    others: list[int] = []
    pool.on_act = lambda _call: others.append(len(other.made))
    claims = [wanted(name=f"c{number}") for number in range(30)]
    node.put_file("all.yaml", *claims, pvc("z", "1Gi", storageClassName="other"))
    assert others == [1] * 30
    assert len(pool.made) == 30


# --- growth ---


def test_a_claim_that_takes_its_wish_for_more_back_waits_for_nothing(node: TestNode, pool: Pool) -> None:
    node.put_file("class.yaml", fast(allowVolumeExpansion=True))
    node.put_file("c.yaml", wanted("2Gi"))
    pool.before.append(OperationError("the pool is full"))
    node.put_file("c.yaml", wanted("3Gi"))
    assert "its volume is not grown: the pool is full" in claim(node).message
    node.put_file("c.yaml", wanted("1Gi"))
    node.advance(100)
    assert (claim(node).message, volume(node).size) == ("", 2 * GIB)


# --- storage that two volumes name ---


def of_disk(name: str, disk: str) -> Document:
    """Give a PersistentVolume of a file, of what the pool calls so."""
    document = pv(name, "1Gi", storageClassName="")
    spec = {key: value for key, value in document["spec"].items() if key != "hostPath"}
    return {**document, "spec": {**spec, "diskProbe": {"disk": disk}}}


def test_what_another_persistent_volume_names_too_is_not_deleted(node: TestNode, pool: Pool) -> None:
    node.put_file("class.yaml", fast())
    node.put_file("c.yaml", wanted())
    node.put_file("twin.yaml", of_disk("twin", NAMED))
    node.remove_file("c.yaml")
    with pytest.raises(OperationError, match=r"PersistentVolume twin of twin.yaml is the same storage"):
        delete_data(node)
    assert pool.volumes.keys() == {NAMED}
    node.remove_file("twin.yaml")
    assert delete_data(node) == ""


def test_a_deletion_that_was_begun_waits_while_another_persistent_volume_names_the_storage(
    node: TestNode, pool: Pool
) -> None:
    node.put_file("class.yaml", fast())
    node.put_file("c.yaml", wanted())
    node.remove_file("c.yaml")
    pool.before.append(OperationError("the pool sleeps"))
    assert delete_data(node) == "the pool sleeps"
    node.put_file("twin.yaml", of_disk("twin", NAMED))
    node.advance(100)
    assert pool.volumes.keys() == {NAMED}
    node.remove_file("twin.yaml")
    node.advance(100)
    assert pool.volumes == {}


def test_the_volume_of_an_earlier_claim_is_deleted_by_its_name_while_a_later_one_has_another(
    node: TestNode, pool: Pool
) -> None:
    node.put_file("class.yaml", fast())
    for _ in range(2):
        node.put_file("c.yaml", wanted(), pod("web", claim_of("data", "c"), uid="u1"))
        assert node.is_mounted("web")
        node.remove_file("c.yaml")
    node.put_file("c.yaml", wanted(), pod("web", claim_of("data", "c"), uid="u1"))
    assert claim(node).volume_name == f"{NAMED}-3"
    assert node.registry.provisions is not None
    for name in (NAMED, f"{NAMED}-2"):
        assert f"until volmgr delete pv/{name} --data deletes it" in volume(node, name).message
        check_deletable(node.world, volume(node, name))
        deleting = node.registry.provisions.begin_deletion(name)
        node.reconciler.provisioning.delete(name, deleting.ref, lambda _why: None)
    node.settle()
    assert pool.volumes.keys() == {f"{NAMED}-3"}
    with pytest.raises(OperationError, match="its claim is there"):
        node.registry.provisions.begin_deletion(f"{NAMED}-3")


def test_who_asks_again_for_a_deletion_that_failed_has_it_tried_at_once(node: TestNode, pool: Pool) -> None:
    node.put_file("class.yaml", fast())
    node.put_file("c.yaml", wanted())
    node.remove_file("c.yaml")
    pool.before.append(OperationError("the pool sleeps"))
    assert delete_data(node) == "the pool sleeps"
    assert delete_data(node) == ""


def test_a_volume_of_a_file_that_takes_the_name_meanwhile_leaves_the_claim_without_a_second_one(
    node: TestNode, pool: Pool
) -> None:
    node.put_file("class.yaml", fast())
    pool.after.append(UncertainError("no answer in time"))
    node.put_file("c.yaml", wanted())
    node.put_file("named.yaml", of_disk(NAMED, "another"))
    node.advance(100)
    assert f"is PersistentVolume {NAMED} already" in claim(node).message
    node.remove_file("named.yaml")
    node.advance(1000)
    assert claim(node).phase == "Bound"
    assert pool.made == [NAMED]


def test_who_gives_one_storage_for_two_claims_gives_the_second_none(node: TestNode, pool: Pool) -> None:
    node.put_file("twin.yaml", of_disk("twin", NAMED))
    node.put_file("class.yaml", fast())
    node.put_file("c.yaml", wanted())
    assert f"what {NAME} made as PersistentVolume {NAMED} is PersistentVolume twin already" in claim(node).message
    node.remove_file("twin.yaml")
    node.advance(1)
    assert claim(node).phase == "Bound"
    assert pool.made == [NAMED]


# --- records that cannot be read ---


def damage(host: FakeHost, data: bytes) -> None:
    (name,) = host.files.names(host.paths.state / "provisioned")
    host.files.write(host.paths.state / "provisioned" / name, data)


@pytest.mark.parametrize("data", [b"{half", b"[" * 100000, b'{"kind": "provisioned volume", "version": 2}'])
def test_a_later_claim_does_not_get_what_a_damaged_record_may_speak_of(host: FakeHost, pool: Pool, data: bytes) -> None:
    node = new_node(host, pool)
    node.put_file("class.yaml", fast())
    node.put_file("c.yaml", wanted())
    node.sources_ready()
    node.remove_file("c.yaml")
    damage(host, data)
    again = new_node(host, pool)
    again.put_file("class.yaml", fast())
    again.sources_ready()
    again.put_file("c.yaml", wanted())
    again.advance(60)
    assert "is damaged, so whether" in claim(again).message
    assert pool.calls == [f"provision {NAMED}"]


def test_a_damaged_record_of_what_was_begun_is_not_written_over(host: FakeHost, pool: Pool) -> None:
    pool.after.append(UncertainError("no answer in time"))
    node = new_node(host, pool)
    node.put_file("class.yaml", fast())
    node.put_file("c.yaml", wanted())
    node.sources_ready()
    damage(host, b"{half")
    again = new_node(host, pool)
    again.put_file("class.yaml", fast())
    again.put_file("c.yaml", wanted())
    again.sources_ready()
    assert "is damaged, so whether" in claim(again).message
    assert pool.calls == [f"provision {NAMED}"]
    again.put_file("b.yaml", wanted(name="b"))
    assert claim(again, "b").phase == "Bound"
