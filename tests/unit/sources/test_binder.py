"""Which claim gets which volume, how long it keeps it, and what becomes of a volume whose claim is gone."""

from __future__ import annotations

import pytest

from tests.unit.sources.claim_bench import GIB, ClaimBench, Document, asking, pv, pvc, storage_class, user
from volmgr.errors import OperationError
from volmgr.model.names import claim_uid
from volmgr.testing import FakeHost, Fault, FaultHost, Killed, When


@pytest.fixture
def bench() -> ClaimBench:
    return ClaimBench()


# --- who gets what ---


def test_the_smallest_that_is_large_enough_is_chosen_and_the_first_of_equal_ones(bench: ClaimBench) -> None:
    bench.offer("pv", pv("tiny", "1Gi"), pv("c", "5Gi"), pv("b", "5Gi"), pv("huge", "1Ti"))
    bench.offer("pvc", pvc("data", "2Gi"))
    assert bench.state("data") == ("Bound", "b")
    assert bench.owner("b") == ("Bound", "data")
    assert bench.owner("c") == ("Available", "")
    assert bench.volume("b").claim_ref is not None
    assert bench.claim("data").status_capacity["storage"].to_int() == 5 * GIB


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["claims first", "volumes first"])
def test_everything_of_one_read_is_weighed_together(bench: ClaimBench, order: tuple[int, int]) -> None:
    parts: tuple[list[Document], list[Document]] = (
        [pvc("large", "5Gi"), pvc("small", "1Gi")],
        [pv("five", "5Gi"), pv("one", "1Gi")],
    )
    bench.offer("all", *parts[order[0]], *parts[order[1]])
    assert bench.state("large") == ("Bound", "five")
    assert bench.state("small") == ("Bound", "one")


def test_a_volume_that_appears_goes_to_who_asks_for_most_of_it(bench: ClaimBench) -> None:
    bench.offer("pvc", pvc("a", "1Gi"), pvc("b", "3Gi"), pvc("c", "9Gi"))
    bench.offer("one", pv("one", "5Gi"))
    assert [bench.state(name)[0] for name in "abc"] == ["Pending", "Bound", "Pending"]
    bench.offer("two", pv("two", "5Gi"))
    assert [bench.state(name)[0] for name in "abc"] == ["Bound", "Bound", "Pending"]


@pytest.mark.parametrize(
    ("volume", "claim", "reason"),
    [
        (pv("v", "1Gi"), pvc("c", "2Gi"), "its capacity is 1Gi, less than 2Gi"),
        (pv("v"), pvc("c", "1Gi", "ReadWriteMany"), "it has no access mode ReadWriteMany"),
        (pv("v", volumeMode="Block"), pvc("c"), "its volumeMode is Block, not Filesystem"),
        (pv("v", storageClassName="a"), pvc("c"), "its storageClassName is 'a', not ''"),
        (pv("v"), pvc("c", storageClassName="a"), "its storageClassName is '', not 'a'"),
        (pv("v"), pvc("c", selector={"matchLabels": {"a": "b"}}), "its labels do not match the claim's selector"),
        (pv("v", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), pvc("c"), "it is being deleted"),
        (pv("v", claimRef={"namespace": "default", "name": "other"}), pvc("c"), "it belongs to claim default/other"),
        (pv("v"), pvc("c", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_does_not_fit_is_not_chosen(volume: Document, claim: Document, reason: str) -> None:
    from volmgr import pairing

    bench = ClaimBench()
    bench.offer("all", volume, claim)
    assert bench.claim("c").phase == "Pending"
    assert bench.owner("v")[0] == "Available"
    if reason:
        found = pairing.mismatch(bench.claim("c"), bench.volume("v"), bench.claim("c").storage_class_name or "", None)
        assert found == reason


@pytest.mark.parametrize(
    ("selector", "fits"),
    [
        ({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["fast"]}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["fast"]}]}, False),
        ({"matchExpressions": [{"key": "none", "operator": "DoesNotExist"}]}, True),
        ({"matchLabels": {"tier": "fast"}, "matchExpressions": [{"key": "none", "operator": "Exists"}]}, False),
        ({}, True),
    ],
)
def test_a_selector_chooses_by_labels(bench: ClaimBench, selector: Document, *, fits: bool) -> None:
    bench.offer("all", pv("v", metadata={"labels": {"tier": "fast"}}), pvc("c", selector=selector))
    assert (bench.claim("c").phase == "Bound") == fits


def test_a_claim_that_names_no_class_is_of_the_default_one_also_when_that_appears_later(bench: ClaimBench) -> None:
    bench.offer("all", pv("gold", storageClassName="gold"), pvc("c"), pvc("none", storageClassName=""))
    assert bench.claim("c").phase == "Pending"
    bench.offer("class", storage_class("gold", default=True))
    assert bench.state("c") == ("Bound", "gold")
    assert bench.claim("none").phase == "Pending", "an empty name is a name"
    bench.offer("plain", pv("plain"))
    assert bench.state("none") == ("Bound", "plain")


def test_a_class_for_consumers_gives_a_volume_when_a_pod_uses_the_claim(bench: ClaimBench) -> None:
    bench.offer("all", storage_class("late", late=True), pv("v", storageClassName="late"))
    bench.offer("c", pvc("c", storageClassName="late"))
    assert bench.claim("c").message == "it gets a volume when a Pod uses it: so says its class late"
    bench.post(user("web", "c"))
    assert bench.state("c") == ("Bound", "v")


def test_a_class_that_makes_volumes_elsewhere_says_that_nobody_does_here(bench: ClaimBench) -> None:
    bench.offer("all", storage_class("cloud", provisioner="ebs.csi.aws.com"), pvc("c", storageClassName="cloud"))
    assert bench.claim("c").message == (
        "no PersistentVolume fits it, and nobody here makes one as ebs.csi.aws.com would;"
        " start or install ebs.csi.aws.com, or add a PersistentVolume"
    )


def test_a_volume_of_another_node_is_left_out_where_this_node_is_known() -> None:
    bench = ClaimBench(node_name="n1")
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
    bench.offer("node", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"zone": "a"}}})
    far = pv("far", nodeAffinity={"required": {"nodeSelectorTerms": [term]}})
    bench.offer("all", far, pv("near", "9Gi"), pvc("c"))
    assert bench.state("c") == ("Bound", "near")
    bench.offer("more", pvc("d"))
    assert bench.claim("d").phase == "Pending"
    bench.offer("node", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"zone": "b"}}})
    assert bench.state("d") == ("Bound", "far")


# --- what manifests say already ---


def test_a_claim_that_names_a_volume_gets_that_or_none(bench: ClaimBench) -> None:
    bench.offer("all", pv("better"), pvc("c", volumeName="mine"))
    assert "PersistentVolume mine, which it names, does not exist" in bench.claim("c").message
    bench.offer("mine", pv("mine", "9Gi"))
    assert bench.state("c") == ("Bound", "mine")
    bench.offer("small", pv("small", "1Gi"), pvc("d", "2Gi", volumeName="small"), pvc("e", volumeName="mine"))
    assert "its capacity is 1Gi, less than 2Gi" in bench.claim("d").message
    assert "it belongs to claim default/c" in bench.claim("e").message


def test_a_claim_ref_without_uid_is_a_reservation_whatever_class_and_labels(bench: ClaimBench) -> None:
    reserved = pv("kept", "9Gi", storageClassName="other", claimRef={"namespace": "default", "name": "c"})
    bench.offer("all", reserved, pv("small"), pvc("other"), pvc("c", selector={"matchLabels": {"a": "b"}}))
    assert bench.state("c") == ("Bound", "kept")
    assert bench.state("other") == ("Bound", "small")


def test_a_bound_pair_of_a_cluster_works_as_it_was_dumped_before_everything_was_read() -> None:
    bench = ClaimBench(read=False)
    owner = {"namespace": "default", "name": "c", "uid": "u1"}
    bench.offer("all", pv("v", claimRef=owner), pvc("c", metadata={"uid": "u1"}, volumeName="v"))
    assert bench.state("c") == ("Bound", "v")


def test_a_claim_ref_with_another_uid_is_another_claim_s_volume(bench: ClaimBench) -> None:
    owner = {"namespace": "default", "name": "c", "uid": "u1"}
    bench.offer("all", pv("v", claimRef=owner), pvc("c"))
    assert bench.state("c") == ("Pending", "")
    assert bench.owner("v") == ("Released", "c")
    bench.registry.release("v")
    assert bench.state("c") == ("Bound", "v"), "what is left is a reservation"
    assert bench.restart().state("c") == ("Bound", "v")


def test_a_claim_without_uid_has_one_of_its_name(bench: ClaimBench) -> None:
    bench.offer("all", pvc("c"), pvc("d", metadata={"uid": "given"}))
    assert bench.claim("c").metadata.uid == claim_uid("default", "c")
    assert bench.claim("d").metadata.uid == "given"


def test_a_pair_stays_whatever_its_manifests_say_later(bench: ClaimBench) -> None:
    bench.offer("pv", pv("a"), pv("b"))
    bench.offer("pvc", pvc("c"))
    bench.offer("pvc", pvc("c", "7Gi", volumeName="b"))
    assert bench.state("c") == ("Bound", "a")
    assert bench.claim("c").message == "its manifest names b, but a is its volume already"
    bench.offer("pv", pv("a", "1Mi", claimRef={"namespace": "default", "name": "x"}), pv("b"))
    assert bench.state("c") == ("Bound", "a")
    assert bench.owner("a") == ("Bound", "c")


# --- what is not read yet ---


def test_claims_choose_when_every_source_was_read_so_that_the_order_of_files_does_not_matter() -> None:
    bench = ClaimBench(read=False)
    bench.offer("a", pvc("c"))
    bench.offer("b", pv("large", "9Gi"))
    assert bench.claim("c").message == "it gets a volume when every source was read whole, and dir was not"
    bench.offer("d", pv("small"))
    bench.read()
    assert bench.state("c") == ("Bound", "small")


def test_what_was_not_read_yet_is_not_gone(bench: ClaimBench) -> None:
    bench.offer("pv", pv("v"))
    bench.offer("pvc", pvc("c"))
    again = ClaimBench(bench.host, read=False)
    again.offer("pv", pv("v"), pv("w"))
    assert again.owner("v") == ("Bound", "c")
    again.offer("pvc", pvc("c"))
    assert again.state("c") == ("Bound", "v")
    again.read()
    assert again.state("c") == ("Bound", "v")


def test_what_went_while_nobody_looked_is_gone_when_everything_was_read(bench: ClaimBench) -> None:
    bench.offer("pv", pv("v"))
    bench.offer("pvc", pvc("c"))
    again = ClaimBench(bench.host, read=False)
    again.offer("pv", pv("v"))
    again.read()
    assert again.owner("v") == ("Released", "c")


# --- what is gone ---


@pytest.mark.parametrize("uid", ["", "other"])
def test_a_volume_whose_claim_is_gone_is_nobody_s_until_it_is_released(bench: ClaimBench, uid: str) -> None:
    bench.offer("pv", pv("v", persistentVolumeReclaimPolicy="Delete"))
    bench.offer("pvc", pvc("c"))
    bench.remove("pvc")
    assert bench.owner("v") == ("Released", "c")
    assert "its data is kept, although its reclaim policy is Delete" in bench.volume("v").message
    bench.offer("again", pvc("c", metadata={"uid": uid} if uid else None))
    assert bench.state("c") == ("Pending", "")
    assert "volmgr release pv/v frees it" in bench.claim("c").message
    bench = bench.restart()
    bench.offer("again", pvc("c", volumeName="v", metadata={"uid": uid} if uid else None))
    assert bench.claim("c").phase == "Pending"
    bench.registry.release("v")
    assert bench.state("c") == ("Bound", "v")


def test_a_claim_with_another_uid_is_another_claim(bench: ClaimBench) -> None:
    bench.offer("pv", pv("v"))
    bench.offer("pvc", pvc("c", metadata={"uid": "one"}))
    bench.offer("pvc", pvc("c", metadata={"uid": "two"}))
    assert bench.owner("v") == ("Released", "c")
    assert bench.state("c") == ("Pending", "")


def test_a_claim_whose_volume_is_gone_is_lost_and_bound_again_when_it_returns(bench: ClaimBench) -> None:
    bench.offer("pv", pv("v"))
    bench.offer("pvc", pvc("c"))
    bench.remove("pv")
    assert bench.state("c") == ("Lost", "v")
    assert bench.claim("c").message == "PersistentVolume v, its volume, is not there any more; put it back"
    bench.offer("other", pv("w"))
    assert bench.state("c") == ("Lost", "v")
    bench.offer("pv", pv("v"))
    assert bench.state("c") == ("Bound", "v")


def test_a_pair_of_which_nothing_is_left_is_forgotten(bench: ClaimBench) -> None:
    bench.offer("all", pv("v"), pvc("c"))
    bench.remove("all")
    assert bench.record("v") == {}
    bench.offer("all", pv("v"), pvc("d"))
    assert bench.state("d") == ("Bound", "v")


def test_a_released_volume_that_is_taken_away_and_added_again_is_a_new_one(bench: ClaimBench) -> None:
    bench.offer("pv", pv("v"))
    bench.offer("pvc", pvc("c"))
    bench.remove("pvc")
    bench.remove("pv")
    bench.offer("pv", pv("v"))
    assert bench.owner("v") == ("Available", "")


def test_a_claim_that_a_pod_uses_may_come_back_and_has_its_volume(bench: ClaimBench) -> None:
    bench.offer("pv", pv("v"))
    bench.offer("pvc", pvc("c"))
    bench.post(user("web", "c"))
    bench.remove("pvc")
    assert bench.owner("v") == ("Released", "c")
    with pytest.raises(OperationError, match="is used by Pods through claim default/c, which is gone"):
        bench.registry.release("v")
    bench = bench.restart()
    bench.offer("moved", pvc("c"))
    assert bench.state("c") == ("Bound", "v")
    bench.remove("moved")
    bench.end("uid-web")
    bench.offer("moved", pvc("c"))
    assert bench.state("c") == ("Pending", "")
    assert bench.owner("v") == ("Released", "c")


def test_a_volume_is_released_only_when_its_claim_is_gone(bench: ClaimBench) -> None:
    bench.offer("all", pv("v"), pvc("c"), pv("free", "1Mi"))
    with pytest.raises(OperationError, match="v belongs to claim default/c; let the claim go first"):
        bench.registry.release("v")
    with pytest.raises(OperationError, match="free is Available, not Released; there is nothing to do"):
        bench.registry.release("free")
    with pytest.raises(KeyError):
        bench.registry.release("unheard")


def test_a_released_volume_goes_to_a_claim_that_waits_for_it(bench: ClaimBench) -> None:
    bench.offer("pv", pv("v"))
    bench.offer("pvc", pvc("c"))
    bench.remove("pvc")
    bench.offer("more", pvc("d"))
    bench.registry.release("v")
    assert bench.state("d") == ("Bound", "v")


# --- ephemeral ---


def test_a_pod_s_ephemeral_claim_is_made_bound_and_goes_with_the_last_of_its_volumes(bench: ClaimBench) -> None:
    bench.offer("pv", pv("v"))
    bench.post(user("web", ephemeral=asking()))
    assert bench.state("web-scratch") == ("Bound", "v")
    (owner,) = bench.claim("web-scratch").metadata.owner_references
    assert (owner.kind, owner.uid, owner.controller) == ("Pod", "uid-web", True)
    bench.registry.delete("uid-web")
    assert bench.state("web-scratch") == ("Bound", "v"), "its volumes are still there"
    bench.registry.forget("uid-web")
    assert "web-scratch" not in {ref.name for ref in bench.known}
    assert bench.owner("v") == ("Released", "web-scratch")


def test_an_ephemeral_claim_stays_over_a_restart_and_while_a_source_is_not_ready(bench: ClaimBench) -> None:
    bench.offer("pv", pv("v"))
    bench.post(user("web", ephemeral=asking()))
    again = ClaimBench(bench.host, read=False)
    again.offer("pv", pv("v"))
    assert again.state("web-scratch") == ("Bound", "v")
    again.read()
    again.registry.state("dir", ready=False, problem="it is gone")
    assert again.state("web-scratch") == ("Bound", "v")


def test_a_pod_whose_record_is_damaged_keeps_its_ephemeral_volume(bench: ClaimBench) -> None:
    bench.offer("pv", pv("v"))
    bench.post(user("web", ephemeral=asking()))
    bench.host.files.write(bench.host.paths.state / "pods" / "uid-web.json", b"{", 0o600)
    again = bench.restart()
    assert again.owner("v") == ("Released", "web-scratch")
    again.post(user("web", ephemeral=asking()))
    assert again.state("web-scratch") == ("Bound", "v")


def test_a_claim_of_a_user_with_that_name_is_left_alone(bench: ClaimBench) -> None:
    bench.offer("all", pv("v"), pv("w"), pvc("web-scratch"))
    bench.post(user("web", ephemeral=asking()))
    assert bench.claim("web-scratch").metadata.owner_references == ()
    bench.remove("all")
    bench.offer("pv", pv("w"))
    assert bench.claim("web-scratch").metadata.owner_references != ()


def test_a_second_pod_of_the_name_gets_its_ephemeral_claim_when_the_first_is_gone(bench: ClaimBench) -> None:
    bench.offer("pv", pv("a"), pv("b"))
    bench.post(user("web", ephemeral=asking(), uid="one"))
    bench.post(user("web", ephemeral=asking(), uid="two"))
    assert bench.claim("web-scratch").metadata.owner_references[0].uid == "one"
    bench.registry.forget("one")
    assert bench.claim("web-scratch").metadata.owner_references[0].uid == "two"
    assert bench.state("web-scratch") == ("Bound", "b")
    assert bench.owner("a")[0] == "Released"


# --- records ---


def test_a_volume_that_has_grown_is_remembered_with_its_size(bench: ClaimBench) -> None:
    bench.offer("all", pv("v"), pvc("c"))
    bench.offer("all", pv("v", "3Gi"), pvc("c"))
    assert bench.claim("c").status_capacity["storage"].to_int() == GIB
    bench.registry.grown("v", 3 * GIB)
    assert bench.claim("c").status_capacity["storage"].to_int() == 3 * GIB
    again = bench.restart()
    assert again.claim("c").status_capacity["storage"].to_int() == 3 * GIB


@pytest.mark.parametrize("content", [b"", b"{", b'{"kind": "binding", "version": 99, "volume": "v"}'])
def test_a_damaged_record_keeps_its_volume_and_every_choice_until_its_owner_speaks(content: bytes) -> None:
    bench = ClaimBench()
    bench.offer("all", pv("v"), pvc("c"))
    (name,) = bench.host.files.names(bench.host.paths.state / "claims")
    bench.host.files.write(bench.host.paths.state / "claims" / name, content, 0o600)
    bench.files["more"] = (pv("w"),)
    again = bench.restart()
    assert again.owner("v") == ("Failed", "")
    assert again.claim("c").phase == "Pending"
    assert "is damaged" in again.claim("c").message
    again.registry.release("v")
    assert again.state("c") == ("Bound", "v")


def test_claims_that_waited_for_a_damaged_record_choose_of_all_volumes_when_it_is_settled() -> None:
    bench = ClaimBench()
    bench.offer("all", pv("v"), pvc("c"))
    (name,) = bench.host.files.names(bench.host.paths.state / "claims")
    bench.host.files.write(bench.host.paths.state / "claims" / name, b"{", 0o600)
    bench.files["more"] = (pv("large", "9Gi"), pvc("d", "9Gi"))
    again = bench.restart()
    assert again.claim("d").phase == "Pending"
    again.registry.release("v")
    assert again.state("d") == ("Bound", "large")


def test_what_cannot_be_recorded_is_not_told_and_tried_again(bench: ClaimBench) -> None:
    bench.offer("pv", pv("v"))
    assert isinstance(bench.host, FakeHost)
    bench.host.disk_full = True
    assert not bench.offer("pvc", pvc("c"))
    assert bench.claim("c").phase == "Pending"
    assert "cannot be recorded" in bench.claim("c").message
    bench.host.disk_full = False
    assert bench.registry.retry()
    assert bench.state("c") == ("Bound", "v")


@pytest.mark.parametrize("when", list(When))
@pytest.mark.parametrize("at", range(1, 9))
def test_a_kill_at_any_write_leaves_each_volume_to_one_claim(at: int, when: When) -> None:
    host = FakeHost()
    faulty = FaultHost(host)
    told: dict[str, str] = {}
    bench = ClaimBench(faulty)
    begun = faulty.verbs.count("files.write")
    faulty.faults = [Fault.kill(begun + at, when, verb="files.write")]
    try:
        bench.offer("pv", *(pv(name) for name in "vwxyz"))
        bench.offer("pvc", *(pvc(name) for name in "cdefg"))
        bench.post(user("web", "c", ephemeral=asking()))
        bench.remove("pvc")
    except Killed:
        told = {name: bench.state(name)[1] for name in "cdefg" if any(ref.name == name for ref in bench.known)}
    again = ClaimBench(host, read=False)
    again.offer("pvc", *(pvc(name) for name in "cdefg"))
    again.offer("pv", *(pv(name) for name in "vwxyz"))
    again.read()
    for name, volume in told.items():
        if volume:
            assert again.state(name) in {("Bound", volume), ("Pending", "")}
    volumes = [again.state(name)[1] for name in "cdefg" if again.claim(name).phase == "Bound"]
    assert len(set(volumes)) == len(volumes)


def test_without_a_binder_everything_is_told_as_it_is() -> None:
    from volmgr.manifest import parse
    from volmgr.sources.changes import Change, ObjectChanged
    from volmgr.sources.registry import Registry

    host = FakeHost()
    told: list[Change] = []
    registry = Registry(host.files, host.paths, told.append, binds_claims=False)
    registry.start()
    registry.offer(
        "dir", "a", "1", parse(b"kind: PersistentVolumeClaim\napiVersion: v1\nmetadata: {name: c}\nspec: {}", "a")
    )
    (change,) = told
    assert isinstance(change, ObjectChanged)
    assert change.item.metadata.uid == ""
    with pytest.raises(OperationError, match="a controller gives volumes to claims here"):
        registry.release("v")
