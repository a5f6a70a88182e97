"""Volumes that are made for claims: from a claim to a mount, over failures, kills, growth and deletion."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.flow.core.pool import NAME, Pool, PoolProvisioner
from tests.flow.core.probes import Disk, ProbeSource, Script, claim_of
from tests.unit.sources.claim_bench import GIB, Document, asking, pv, pvc, storage_class
from volmgr import manifest
from volmgr.config import Config
from volmgr.errors import OperationError, TransientError, UncertainError
from volmgr.messages import DriversSearched
from volmgr.model.driver_info import DriverInfo, driver_awaited
from volmgr.model.meta import ObjectRef
from volmgr.model.names import claim_uid
from volmgr.model.objects import PersistentVolumeClaim
from volmgr.model.volume import Facets, PersistentVolume, VolumeSpec
from volmgr.plugin import Searched
from volmgr.report.claims import claims_report
from volmgr.report.deletion import check_deletable, deletable
from volmgr.report.orphans import orphans_report
from volmgr.report.why import why_lines
from volmgr.testing import FakeHost, Fault, FaultHost, Killed, When
from volmgr.testing.node import FILES, TestNode, plugins_of, pod
from volmgr.volume_type import Origin

UID = claim_uid("default", "c")
NAMED = f"pvc-{UID}"
CLAIM = ObjectRef("PersistentVolumeClaim", "default", "c")


@pytest.fixture
def pool() -> Pool:
    return Pool()


class Medium(Disk):
    """The probing type, whose volumes take mount options."""

    supports_mount_options = True


class Alone(Medium):
    """The same, no two calls of which may overlap for one volume."""

    def exclusive(self, spec: VolumeSpec[ProbeSource]) -> tuple[str, ...]:
        return (f"disk {spec.source.disk}",)


def new_node(host: FakeHost | FaultHost, pool: Pool, config: Config | None = None) -> TestNode:
    plugins = plugins_of(Medium(Script(facets=Facets(device=True, expand=True))))
    plugins.provisioners.append((PoolProvisioner(pool), Origin("test-pool", "0", "test")))
    return TestNode(host, plugins, config, sources=("api", FILES))


@pytest.fixture
def node(host: FakeHost, pool: Pool) -> TestNode:
    node = new_node(host, pool)
    node.sources_ready()
    return node


def fast(**more: Any) -> Document:  # noqa: ANN401 - YAML
    """Give the class whose volumes come from the pool."""
    return {**storage_class("fast", provisioner=NAME), "reclaimPolicy": "Delete", **more}


def wanted(size: str = "1Gi", name: str = "c") -> Document:
    return pvc(name, size, storageClassName="fast")


def claim(node: TestNode, name: str = "c") -> PersistentVolumeClaim:
    item = node.world.objects[ObjectRef("PersistentVolumeClaim", "default", name)].item
    assert isinstance(item, PersistentVolumeClaim)
    return item


def volume(node: TestNode, name: str = NAMED) -> PersistentVolume:
    item = node.world.objects[ObjectRef("PersistentVolume", "", name)].item
    assert isinstance(item, PersistentVolume)
    return item


def delete_data(node: TestNode, ref: ObjectRef = CLAIM) -> str:
    """Do what `volmgr delete pvc/… --data` does; gives why the first try failed."""
    found = deletable(node.world, ref)
    check_deletable(node.world, found)
    assert node.registry.provisions is not None
    deleting = node.registry.provisions.begin_deletion(found.metadata.name)
    heard: list[str] = []
    node.reconciler.provisioning.delete(found.metadata.name, deleting.ref, heard.append)
    node.settle()
    return heard[0]


# --- making ---


def test_a_claim_and_its_pod_go_in_and_a_mounted_volume_comes_out(node: TestNode, pool: Pool) -> None:
    node.put_file("all.yaml", fast(mountOptions=["noatime"]), wanted(), pod("web", claim_of("data", "c"), uid="u1"))
    assert node.is_mounted("web"), why_lines(node.world, "web")
    made = volume(node)
    assert (claim(node).phase, claim(node).volume_name) == ("Bound", NAMED)
    assert (made.reclaim_policy, made.storage_class_name, made.mount_options) == ("Delete", "fast", ("noatime",))
    assert (made.size, made.phase, made.claim_ref and made.claim_ref.uid) == (GIB, "Bound", UID)
    assert pool.calls == [f"provision {NAMED}"]
    assert node.warnings() == ()


def test_what_was_made_is_there_after_a_restart_without_a_call(host: FakeHost, pool: Pool) -> None:
    files = (fast(), wanted(), pod("web", claim_of("data", "c"), uid="u1"))
    for _ in range(2):
        node = new_node(host, pool)
        node.put_file("all.yaml", *files)
        node.sources_ready()
        assert node.is_mounted("web")
    assert pool.calls == [f"provision {NAMED}"]


def test_a_class_for_consumers_has_its_volume_made_when_a_pod_uses_the_claim(node: TestNode, pool: Pool) -> None:
    node.put_file("all.yaml", fast(volumeBindingMode="WaitForFirstConsumer"), wanted())
    assert pool.calls == []
    node.put_file("web.yaml", pod("web", claim_of("data", "c"), uid="u1"))
    assert node.is_mounted("web")


def test_what_was_begun_is_found_out_although_nobody_uses_the_claim_any_more(node: TestNode, pool: Pool) -> None:
    pool.after.append(UncertainError("no answer in time"))
    node.put_file("all.yaml", fast(volumeBindingMode="WaitForFirstConsumer"))
    node.put_file("c.yaml", wanted())
    node.put_file("web.yaml", pod("web", claim_of("data", "c"), uid="u1"))
    node.remove_file("web.yaml")
    node.remove_file("all.yaml")
    node.advance(1000)
    assert (claim(node).phase, claim(node).volume_name) == ("Bound", NAMED)
    assert pool.made == [NAMED]


def test_a_free_volume_that_fits_is_taken_and_none_is_made(node: TestNode, pool: Pool) -> None:
    node.put_file("all.yaml", fast(), pv("there", "5Gi", storageClassName="fast"), wanted())
    assert claim(node).volume_name == "there"
    assert pool.calls == []


def test_a_claim_whose_volume_is_being_made_takes_no_other(node: TestNode, pool: Pool) -> None:
    pool.after.append(UncertainError("no answer in time"))
    node.put_file("all.yaml", fast(), wanted())
    node.put_file("more.yaml", pv("late", "5Gi", storageClassName="fast"))
    assert claim(node).phase == "Pending"
    node.advance(60)
    assert claim(node).volume_name == NAMED
    assert volume(node, "late").phase == "Available"


def test_a_claim_that_is_changed_while_its_volume_is_made_gets_that_one_and_has_it_grown(
    node: TestNode, pool: Pool
) -> None:
    node.put_file("class.yaml", fast(allowVolumeExpansion=True))
    pool.after.append(UncertainError("no answer in time"))
    node.put_file("c.yaml", wanted("1Gi"))
    node.put_file("c.yaml", pvc("c", "3Gi", "ReadWriteMany", storageClassName="fast"))
    node.advance(60)
    assert (claim(node).phase, claim(node).volume_name) == ("Bound", NAMED)
    assert pool.volumes == {NAMED: 3 * GIB}


def test_a_volume_that_a_node_cannot_reach_is_not_made_a_second_time(host: FakeHost, pool: Pool) -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    pool.node_affinity = {"required": {"nodeSelectorTerms": [term]}}
    node = new_node(host, pool, Config(node_name="n1"))
    node.sources_ready()
    node.put_file("node.yaml", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    node.put_file("all.yaml", fast(), wanted(), pod("web", claim_of("data", "c"), uid="u1"))
    node.put_file("all.yaml", fast(), wanted(), pod("web", claim_of("data", "c"), uid="u1"))
    assert pool.made == [NAMED]
    assert f"PersistentVolume {NAMED}: its nodeAffinity does not match node n1" in "".join(why_lines(node.world, "web"))
    node.declare(DriverInfo(name=NAME, node_id="machine-1", topology={"zone": "a"}))
    assert node.is_mounted("web"), why_lines(node.world, "web")


def test_nobody_who_makes_volumes_leaves_the_words_of_before_until_a_driver_comes(node: TestNode, pool: Pool) -> None:
    pool.serving = False
    node.put_file("all.yaml", fast(), wanted())
    assert claim(node).message.startswith(f"no PersistentVolume fits it, and nobody here makes one as {NAME} would")
    assert list(node.host.files.names(node.host.paths.state / "provisioned")) == []
    pool.serving = True
    node.reconciler.provisioning.appeared(driver_awaited(NAME))
    node.settle()
    assert claim(node).phase == "Bound"


@pytest.mark.parametrize("comes", [True, False])
def test_that_nobody_makes_volumes_is_said_only_when_drivers_were_looked_for(
    node: TestNode, pool: Pool, *, comes: bool
) -> None:
    pool.serving = False
    node.reconciler.post(DriversSearched(Searched(field="csi", looking=True)))
    node.put_file("all.yaml", fast(), wanted(), pod("web", claim_of("data", "c"), uid="u1"))
    assert "nobody here makes one" in node.world.pods["u1"].awaited["data"]
    pool.serving = comes
    if comes:
        node.declare(DriverInfo(name=NAME, node_id="machine"))
    node.reconciler.post(DriversSearched(Searched(field="csi")))
    node.settle()
    warnings = " ".join(node.warnings())
    assert (node.is_mounted("web"), "nobody here makes one" in warnings) == (comes, not comes)


def test_a_failure_is_said_of_the_claim_and_to_its_pod_and_tried_again(node: TestNode, pool: Pool) -> None:
    pool.before += [OperationError("the pool is full"), OperationError("the pool is full")]
    node.put_file("all.yaml", fast(), wanted(), pod("web", claim_of("data", "c"), uid="u1"))
    assert claim(node).message == "class fast: the pool is full; tried again in 0.5 s"
    assert "class fast: the pool is full" in "".join(why_lines(node.world, "web"))
    assert list(node.host.files.names(node.host.paths.state / "provisioned")) == [], "nothing is left of it"
    node.advance(0.5)
    assert claim(node).message == "class fast: the pool is full; tried again in 1 s"
    node.advance(1)
    assert node.is_mounted("web")
    assert pool.made == [NAMED]


def test_a_failure_with_the_default_class_says_that_it_is_of_that(node: TestNode, pool: Pool) -> None:
    pool.before.append(OperationError("the pool is full"))
    default = {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    node.put_file("all.yaml", {**fast(), "metadata": default}, pvc("c", "1Gi"))
    assert claim(node).message == "the default class: the pool is full; tried again in 0.5 s"


def test_why_answers_for_a_claim_too(node: TestNode, pool: Pool) -> None:
    pool.before.append(OperationError("the pool sleeps"))
    node.put_file("c.yaml", fast(), wanted())
    (head, wants, *_rest) = why_lines(node.world, "pvc/default/c")
    assert head.startswith("claim default/c: Pending: ")
    assert "the pool sleeps" in head
    assert wants.strip().startswith("it wants storageClassName 'fast', 1Gi")
    node.advance(10)
    assert why_lines(node.world, "pvc/c")[0] == f"claim default/c: Bound, with pv/{NAMED}"
    gone, hint = why_lines(node.world, "pvc/other/c")
    assert gone == "claim other/c: no source has it"
    assert "volmgr claims lists all" in hint


def test_what_no_repetition_mends_waits_for_another_class_or_claim(node: TestNode, pool: Pool) -> None:
    node.put_file("class.yaml", fast(parameters={"wrong": "yes"}))
    node.put_file("c.yaml", wanted())
    node.advance(1000)
    assert claim(node).message == (
        "class fast: parameters.wrong: there is no such parameter; tried again when the claim or its class changes"
    )
    node.put_file("class.yaml", fast())
    assert claim(node).phase == "Bound"


def test_what_a_call_needs_is_handed_over_and_waited_for(node: TestNode, pool: Pool) -> None:
    secret = ObjectRef("Secret", "default", "key")
    pool.needs = (secret,)
    pool.before.append(TransientError("Secret default/key is missing", waits_for=str(secret)))
    node.put_file("all.yaml", fast(), wanted())
    assert claim(node).phase == "Pending"
    node.put_file("key.yaml", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {}})
    assert claim(node).phase == "Bound"
    assert pool.objects == [secret]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"selector": {"matchLabels": {"a": "b"}}}, "makes none for a claim with a selector; remove it"),
        ({"dataSource": {"kind": "VolumeSnapshot", "name": "today"}}, "none is made from VolumeSnapshot/today here"),
    ],
    ids=["a selector", "content"],
)
def test_no_volume_is_made_for_what_cannot_be_had(node: TestNode, pool: Pool, spec: Document, words: str) -> None:
    node.put_file("all.yaml", fast(), pvc("c", storageClassName="fast", **spec))
    assert words in claim(node).message
    assert pool.calls == []


def test_many_claims_have_at_most_a_handful_of_calls_at_once_and_all_get_volumes(node: TestNode, pool: Pool) -> None:
    node.put_file("all.yaml", fast(), *(wanted(name=f"c{number}") for number in range(50)))
    assert {each.phase for each in claims_report(node.world).claims} == {"Bound"}
    assert len(set(pool.made)) == len(pool.made) == 50


# --- a claim that goes meanwhile ---


def test_what_may_have_been_made_for_a_claim_that_is_gone_is_found_out_and_kept(node: TestNode, pool: Pool) -> None:
    pool.after.append(UncertainError("no answer in time"))
    node.put_file("class.yaml", fast())
    node.put_file("c.yaml", wanted())
    node.remove_file("c.yaml")
    assert volume(node).phase == "Released"
    assert pool.volumes.keys() == {NAMED}
    assert pool.made == [NAMED]
    assert any(NAMED in orphan.volume for orphan in orphans_report(node.world).orphans)


def test_a_claim_that_is_gone_before_anything_was_made_leaves_nothing(node: TestNode, pool: Pool) -> None:
    pool.before.append(OperationError("the pool is full"))
    node.put_file("class.yaml", fast())
    node.put_file("c.yaml", wanted())
    node.remove_file("c.yaml")
    node.advance(1000)
    assert pool.volumes == {}
    assert pool.calls == [f"provision {NAMED}"]


def test_a_later_claim_of_the_same_name_gets_another_volume(node: TestNode, pool: Pool) -> None:
    node.put_file("class.yaml", fast())
    for _ in range(2):
        node.put_file("c.yaml", wanted())
        assert claim(node).phase == "Bound"
        node.remove_file("c.yaml")
    assert pool.made == [NAMED, f"{NAMED}-2"]
    with pytest.raises(OperationError, match="say which to delete"):
        deletable(node.world, CLAIM)


# --- growing ---


def test_a_claim_that_asks_for_more_has_its_volume_grown_and_the_node_does_its_part(node: TestNode, pool: Pool) -> None:
    node.put_file("class.yaml", fast(allowVolumeExpansion=True))
    node.put_file("web.yaml", pod("web", claim_of("data", "c"), uid="u1"))
    node.put_file("c.yaml", wanted("1Gi"))
    pool.before.append(UncertainError("no answer in time"))
    node.put_file("c.yaml", wanted("3Gi"))
    assert "its volume is not grown: no answer in time; tried again in 0.5 s" in claim(node).message
    node.advance(1)
    assert volume(node).size == claim(node).status_capacity["storage"].to_int() == 3 * GIB
    assert claim(node).message == ""
    assert [volume.size for volume in node.world.actual] == [3 * GIB]


def test_no_other_call_for_a_volume_overlaps_with_its_growth(host: FakeHost, pool: Pool) -> None:
    plugins = plugins_of(Alone(Script(facets=Facets(device=True, expand=True))))
    plugins.provisioners.append((PoolProvisioner(pool), Origin("test-pool", "0", "test")))
    node = TestNode(host, plugins, sources=("api", FILES), choose=lambda count: count - 1)
    node.sources_ready()
    node.put_file("class.yaml", fast(allowVolumeExpansion=True))
    node.put_file("c.yaml", wanted("1Gi"))
    beside: list[list[str]] = []
    pool.on_act = lambda _call: beside.append([str(operation.verb) for operation in node.world.running])
    web = pod("web", claim_of("data", "c"), uid="u1")
    node.registry.offer(FILES, "web.yaml", "1", manifest.parse(json.dumps(web).encode(), "web.yaml", plugins))
    node.reconciler.step()  # its mount is begun, and has not run
    node.put_file("c.yaml", wanted("3Gi"))
    assert node.is_mounted("web")
    assert volume(node).size == 3 * GIB
    assert beside == [[]]
    assert len(node.world.admission) == 0


@pytest.mark.parametrize("comes", [True, False])
def test_after_a_start_growth_waits_in_silence_until_drivers_were_looked_for(
    node: TestNode, pool: Pool, *, comes: bool
) -> None:
    node.put_file("all.yaml", fast(allowVolumeExpansion=True), wanted("1Gi"))
    pool.serving = False
    node.start()
    node.reconciler.post(DriversSearched(Searched(field="csi", looking=True)))
    node.put_file("all.yaml", fast(allowVolumeExpansion=True), wanted("2Gi"))
    node.sources_ready()
    node.advance(10)
    assert node.warnings() == ()
    pool.serving = comes
    if comes:
        node.declare(DriverInfo(name=NAME, node_id="machine"))
    else:
        node.reconciler.post(DriversSearched(Searched(field="csi")))
        node.settle()
    warnings = " ".join(node.warnings())
    assert (pool.volumes[NAMED] == 2 * GIB, "nobody here makes volumes" in warnings) == (comes, not comes)


def test_growth_that_no_node_has_a_part_in_is_done_at_once(node: TestNode, pool: Pool) -> None:
    pool.by_nodes = False
    node.put_file("class.yaml", fast(allowVolumeExpansion=True))
    node.put_file("c.yaml", wanted("1Gi"))
    node.put_file("c.yaml", wanted("3Gi"))
    assert claim(node).status_capacity["storage"].to_int() == 3 * GIB


def test_growth_that_is_wished_for_again_while_it_fails_is_done_once(node: TestNode, pool: Pool) -> None:
    node.put_file("class.yaml", fast(allowVolumeExpansion=True))
    node.put_file("c.yaml", wanted("1Gi"))
    pool.before += [OperationError("the pool sleeps"), OperationError("the pool still sleeps")]
    again = node.reconciler.provisioning.retry_all
    wishes = [again]
    pool.on_act = lambda _call: wishes.pop()() if wishes else None
    node.put_file("c.yaml", wanted("3Gi"))
    again()
    node.settle()
    assert volume(node).size == 3 * GIB
    node.advance(1000)
    assert pool.calls == [f"provision {NAMED}", *[f"grow {NAMED}"] * 3]


def test_a_class_that_allows_no_growth_says_so_and_nothing_is_asked(node: TestNode, pool: Pool) -> None:
    node.put_file("class.yaml", fast())
    node.put_file("c.yaml", wanted("1Gi"))
    node.put_file("c.yaml", wanted("3Gi"))
    node.advance(1000)
    assert "allowVolumeExpansion of class fast is not true" in claim(node).message
    assert pool.calls == [f"provision {NAMED}"]
    node.put_file("class.yaml", fast(allowVolumeExpansion=True))
    assert volume(node).size == 3 * GIB


# --- deleting ---


def test_a_claim_that_vanishes_deletes_nothing_until_that_is_asked_for(node: TestNode, pool: Pool) -> None:
    node.put_file("class.yaml", fast())
    node.put_file("c.yaml", wanted(), pod("web", claim_of("data", "c"), uid="u1"))
    with pytest.raises(OperationError, match=r"claim default/c is still there, in c.yaml; remove it"):
        deletable(node.world, CLAIM)
    node.remove_file("c.yaml")
    node.advance(1000)
    assert volume(node).phase == "Released"
    (orphan,) = orphans_report(node.world).orphans
    assert orphan.volume == f"pv/{NAMED}"
    assert "volmgr delete pvc/default/c --data deletes it" in orphan.reason
    assert delete_data(node) == ""
    assert pool.volumes == {}
    assert orphans_report(node.world).orphans == ()
    assert claims_report(node.world).volumes == ()
    assert list(node.host.files.names(node.host.paths.state / "claims")) == []
    with pytest.raises(KeyError):
        deletable(node.world, CLAIM)


def test_nothing_is_deleted_that_a_pod_has(node: TestNode, pool: Pool) -> None:
    node.put_file("class.yaml", fast())
    node.put_file("c.yaml", wanted())
    node.put_file("web.yaml", pod("web", claim_of("data", "c"), uid="u1"))
    hold = node.hold("u1", 4711)
    node.remove_file("c.yaml")
    with pytest.raises(OperationError, match="default/web still has it"):
        check_deletable(node.world, volume(node))
    node.remove_file("web.yaml")
    with pytest.raises(OperationError, match="default/web still has it"):
        check_deletable(node.world, volume(node))
    node.release(hold)
    assert delete_data(node) == ""


def test_a_retained_volume_is_not_deleted(node: TestNode, pool: Pool) -> None:
    node.put_file("class.yaml", fast(reclaimPolicy="Retain"))
    node.put_file("c.yaml", wanted())
    node.remove_file("c.yaml")
    with pytest.raises(OperationError, match="its reclaim policy is Retain"):
        delete_data(node)
    assert pool.volumes.keys() == {NAMED}


def test_a_deletion_that_fails_goes_on_until_it_is_done_and_nobody_gets_the_volume(node: TestNode, pool: Pool) -> None:
    node.put_file("class.yaml", fast())
    node.put_file("c.yaml", wanted())
    node.remove_file("c.yaml")
    pool.before.append(OperationError("the pool sleeps"))
    assert delete_data(node) == "the pool sleeps"
    assert "the pool sleeps" in orphans_report(node.world).orphans[0].reason
    with pytest.raises(OperationError, match="is being deleted"):
        node.registry.release(NAMED)
    node.put_file("c.yaml", wanted())
    assert claim(node).volume_name == f"{NAMED}-2"
    node.advance(1)
    assert pool.volumes.keys() == {f"{NAMED}-2"}


def test_a_pod_of_a_later_claim_of_the_same_name_keeps_no_volume_of_the_earlier(node: TestNode, pool: Pool) -> None:
    node.put_file("class.yaml", fast())
    node.put_file("c.yaml", wanted())
    node.remove_file("c.yaml")
    pool.before.append(OperationError("the pool sleeps"))
    assert delete_data(node) == "the pool sleeps"
    node.put_file("c.yaml", wanted())
    node.put_file("web.yaml", pod("web", claim_of("data", "c"), uid="u1"))
    assert node.is_mounted("web"), why_lines(node.world, "web")
    check_deletable(node.world, volume(node))
    with pytest.raises(OperationError, match="default/web still has it"):
        check_deletable(node.world, volume(node, f"{NAMED}-2"))
    node.advance(1)
    assert pool.volumes.keys() == {f"{NAMED}-2"}


def test_a_pod_that_still_has_the_earlier_volume_keeps_it_although_its_claim_was_made_anew(
    node: TestNode, pool: Pool
) -> None:
    node.put_file("class.yaml", fast())
    node.put_file("c.yaml", wanted())
    node.put_file("web.yaml", pod("web", claim_of("data", "c"), uid="u1"))
    assert node.is_mounted("web"), why_lines(node.world, "web")
    anew = wanted()
    node.put_file("c.yaml", {**anew, "metadata": {**anew["metadata"], "uid": "another"}})
    assert (claim(node).phase, claim(node).volume_name) == ("Bound", "pvc-another")
    with pytest.raises(OperationError, match="default/web still has it"):
        check_deletable(node.world, volume(node))
    assert pool.volumes.keys() == {NAMED, "pvc-another"}


def test_the_list_of_claims_says_what_keeps_a_volume_from_being_deleted(node: TestNode, pool: Pool) -> None:
    node.put_file("class.yaml", fast())
    node.put_file("c.yaml", wanted())
    node.remove_file("c.yaml")
    pool.before.append(OperationError("the pool sleeps"))
    assert delete_data(node) == "the pool sleeps"
    (listed,) = claims_report(node.world).volumes
    (left,) = orphans_report(node.world).orphans
    assert listed.reason == left.reason
    assert listed.reason.endswith("the pool sleeps")


def test_a_volume_that_is_being_deleted_is_offered_to_no_claim(node: TestNode, pool: Pool) -> None:
    node.put_file("class.yaml", fast(), storage_class("other"))
    node.put_file("c.yaml", wanted())
    node.remove_file("c.yaml")
    node.put_file("c.yaml", pvc("c", storageClassName="other"))
    assert f"volmgr release pv/{NAMED} frees it" in claim(node).message
    node.remove_file("c.yaml")
    pool.before.append(OperationError("the pool sleeps"))
    delete_data(node)
    node.put_file("c.yaml", pvc("c", storageClassName="other"))
    assert (claim(node).phase, "release" in claim(node).message) == ("Pending", False)


def test_a_volume_that_was_released_by_hand_is_anybodys_and_not_deleted(node: TestNode, pool: Pool) -> None:
    node.put_file("class.yaml", fast())
    node.put_file("c.yaml", wanted())
    node.remove_file("c.yaml")
    node.registry.release(NAMED)
    node.settle()
    assert volume(node).phase == "Available"
    node.put_file("d.yaml", wanted(name="d"))
    assert claim(node, "d").volume_name == NAMED


def test_the_volume_of_an_ephemeral_claim_goes_with_its_pod(node: TestNode, pool: Pool) -> None:
    template = {"volumeClaimTemplate": {"spec": {**asking(), "storageClassName": "fast"}}}
    node.put_file("class.yaml", fast())
    node.put_file("web.yaml", pod("web", {"name": "scratch", "ephemeral": template}, uid="u1"))
    assert node.is_mounted("web"), why_lines(node.world, "web")
    assert len(pool.volumes) == 1
    node.remove_file("web.yaml")
    node.advance(1)
    assert pool.volumes == {}
    assert claims_report(node.world).volumes == ()


def test_the_volume_of_an_ephemeral_claim_goes_although_its_pod_went_before_it_was_there(
    node: TestNode, pool: Pool
) -> None:
    template = {"volumeClaimTemplate": {"spec": {**asking(), "storageClassName": "fast"}}}
    pool.after.append(UncertainError("no answer in time"))
    node.put_file("class.yaml", fast())
    node.put_file("web.yaml", pod("web", {"name": "scratch", "ephemeral": template}, uid="u1"))
    node.remove_file("web.yaml")
    node.advance(1000)
    assert len(pool.made) == 1
    assert pool.volumes == {}
    assert claims_report(node.world).volumes == ()


def test_the_volume_of_an_ephemeral_claim_stays_where_its_class_retains(node: TestNode, pool: Pool) -> None:
    template = {"volumeClaimTemplate": {"spec": {**asking(), "storageClassName": "fast"}}}
    node.put_file("class.yaml", fast(reclaimPolicy="Retain"))
    node.put_file("web.yaml", pod("web", {"name": "scratch", "ephemeral": template}, uid="u1"))
    node.remove_file("web.yaml")
    node.advance(1000)
    assert len(pool.volumes) == 1


# --- packages ---


class Broken(PoolProvisioner):
    """Raises whatever it is asked."""

    def serves(self, provisioner: str) -> bool:
        raise RuntimeError(provisioner)


def test_a_package_that_fails_to_say_what_it_serves_serves_nothing(host: FakeHost, pool: Pool) -> None:
    node = new_node(host, pool)
    node.plugins.provisioners.insert(0, (Broken(pool), Origin("test-broken", "0", "test")))
    node.sources_ready()
    node.put_file("all.yaml", fast(), wanted())
    assert claim(node).phase == "Bound"


def test_two_packages_that_serve_one_provisioner_make_nothing_and_are_named(host: FakeHost, pool: Pool) -> None:
    node = new_node(host, pool)
    node.plugins.provisioners.append((PoolProvisioner(pool), Origin("test-other", "0", "test")))
    node.sources_ready()
    node.put_file("all.yaml", fast(), wanted())
    assert f"provisioner {NAME} is served by test-pool" in claim(node).message
    assert "test-other" in claim(node).message
    assert pool.calls == []


def test_a_bug_of_a_package_is_an_error_of_its_claim_and_something_may_have_been_made(
    node: TestNode, pool: Pool
) -> None:
    pool.after.append(ZeroDivisionError("its author forgot"))
    node.put_file("all.yaml", fast(), wanted())
    assert "bug, see the log: ZeroDivisionError: its author forgot" in claim(node).message
    node.advance(1)
    assert claim(node).phase == "Bound"
    assert pool.made == [NAMED]


# --- records ---


def test_a_damaged_record_is_named_and_its_claim_gets_no_second_volume(host: FakeHost, pool: Pool) -> None:
    node = new_node(host, pool)
    node.sources_ready()
    node.put_file("all.yaml", fast(), wanted(), pod("web", claim_of("data", "c"), uid="u1"))
    node.advance(60)  # what is in use is on disk, too
    (name,) = host.files.names(host.paths.state / "provisioned")
    path = host.paths.state / "provisioned" / name
    host.files.write(path, b"{half")
    again = new_node(host, pool)
    again.put_file("all.yaml", fast(), wanted(), pod("web", claim_of("data", "c"), uid="u1"))
    again.sources_ready()
    again.advance(60)
    assert again.is_mounted("web"), why_lines(again.world, "web")
    assert any("the record is damaged" in text for text in claims_report(again.world).complaints)
    assert pool.made == [NAMED]


def test_a_volume_that_a_cluster_made_is_not_deleted(node: TestNode) -> None:
    annotations = {"pv.kubernetes.io/provisioned-by": NAME}
    owner = {"namespace": "default", "name": "c", "uid": "u1"}
    document = pv(
        "dumped", metadata={"annotations": annotations}, claimRef=owner, persistentVolumeReclaimPolicy="Delete"
    )
    node.put_file("dump.yaml", document)
    assert volume(node, "dumped").phase == "Released"
    with pytest.raises(OperationError, match="was not made by volmgr"):
        check_deletable(node.world, deletable(node.world, CLAIM))
    (report,) = claims_report(node.world).volumes
    assert not report.made


# --- kills ---


def _story(node: TestNode) -> None:
    """Let a claim have a volume, grow it, and delete it."""
    node.put_file("class.yaml", fast(allowVolumeExpansion=True))
    node.sources_ready()
    node.put_file("c.yaml", wanted("1Gi"))
    node.put_file("c.yaml", wanted("2Gi"))
    node.remove_file("c.yaml")
    delete_data(node)


def _calls_of_story() -> int:
    host = FaultHost(FakeHost())
    _story(new_node(host, Pool()))
    return len(host.trace)


@pytest.mark.parametrize("when", list(When))
def test_killed_at_any_call_of_the_host_no_volume_is_lost_and_none_is_made_twice(when: When) -> None:
    for at in range(1, _calls_of_story() + 1):
        _kill_in_story(Pool(), FaultHost(FakeHost(), [Fault.kill(at, when)]), f"host call {at} {when}")


@pytest.mark.parametrize("side", ["before", "after"])
def test_killed_around_any_call_of_the_storage_no_volume_is_lost_and_none_is_made_twice(side: str) -> None:
    for at in range(3):
        pool = Pool()
        getattr(pool, side).extend([None] * at + [Killed()])
        _kill_in_story(pool, FaultHost(FakeHost()), f"storage call {at} {side}")


def _kill_in_story(pool: Pool, host: FaultHost, where: str) -> None:
    """Kill the daemon at a point, start it with the files of then, and bring the story to its end."""
    node: TestNode | None = None
    try:
        node = new_node(host, pool)
        _story(node)
    except Killed:
        pass
    assert isinstance(host.inner, FakeHost)
    again = new_node(host.inner, pool)
    again.put_file("class.yaml", fast(allowVolumeExpansion=True))
    again.sources_ready()
    again.advance(1000)
    known = {each.name for each in claims_report(again.world).volumes}
    assert pool.volumes.keys() == known, f"killed at {where}: {pool.calls}"
    again.put_file("c.yaml", wanted("2Gi"))
    again.advance(1000)
    assert claim(again).phase == "Bound", f"killed at {where}: {claim(again).message}"
    assert pool.made.count(NAMED) <= 1 or f"delete {NAMED}" in pool.calls, f"killed at {where}: {pool.calls}"
    again.remove_file("c.yaml")
    for each in claims_report(again.world).volumes:
        assert (each.phase, each.reclaim_policy) == ("Released", "Delete"), where
        assert again.registry.provisions is not None
        deleting = again.registry.provisions.begin_deletion(each.name)
        again.reconciler.provisioning.delete(each.name, deleting.ref, lambda _why: None)
        again.settle()
    assert pool.volumes == {}, f"killed at {where}"
    assert list(again.host.files.names(again.host.paths.state / "provisioned")) == []
