"""Volumes for claims by a driver's controller service: what is asked, what is made of the answer, and of each error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from plugins.csi.tests.controllers import Control, controlled

from tests.csi.fault_driver.profile import ATTACH, CONTROLLER, CREATE, EVERYTHING
from tests.csi.fault_driver.rules import Rule
from volmgr.errors import OperationError, PluginError, SpecError, TransientError, UncertainError, VolmgrError
from volmgr.model.meta import ObjectMeta
from volmgr.model.objects import PersistentVolumeClaim, Secret, StorageClass
from volmgr.model.quantity import Quantity
from volmgr.model.volume import PersistentVolume, VolumeMode
from volmgr.plugin import DeleteVolume, GrowVolume, ObjectRef, Provision, driver_awaited
from volmgr_csi.controller.attaching import ATTACHED, Attachment, Attachments
from volmgr_csi.controller.provisioner import CsiProvisioner
from volmgr_csi.settings import CsiSettings

NAME = "fault.csi.test"
MADE = "pvc-030f6058-92fc-5438-bfde-25049d835bd6"
MIB = 1 << 20
LATER = float("inf")
FAST = StorageClass(metadata=ObjectMeta(name="fast"), provisioner=NAME)
CLAIM = PersistentVolumeClaim(
    metadata=ObjectMeta(name="orders", namespace="shop", uid="u1"),
    access_modes=("ReadWriteOnce",),
    requests={"storage": Quantity.parse("16Mi")},
)
WISH = Provision(name=MADE, claim=CLAIM, storage_class=FAST)
KEY = ObjectRef("Secret", "vault", "key")
SECRET = Secret(metadata=ObjectMeta(name="key", namespace="vault"), data={"password": b"very secret"})
WITH_KEY = {
    "csi.storage.k8s.io/provisioner-secret-name": "key",
    "csi.storage.k8s.io/provisioner-secret-namespace": "vault",
    "csi.storage.k8s.io/controller-expand-secret-name": "key",
    "csi.storage.k8s.io/controller-expand-secret-namespace": "vault",
}


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Control]:
    with controlled(tmp_path) as control:
        yield control


@pytest.fixture
def maker(control: Control) -> CsiProvisioner:
    return CsiProvisioner(control.host)


def classed(**fields: object) -> Provision:
    return replace(WISH, storage_class=replace(FAST, **fields))  # type: ignore[arg-type]


def volume(handle: str, **fields: object) -> PersistentVolume:
    pv = PersistentVolume(
        metadata=ObjectMeta(name=MADE),
        type="csi",
        source={"driver": NAME, "volumeHandle": handle},
        capacity={"storage": Quantity.parse("16Mi")},
        access_modes=("ReadWriteOnce",),
    )
    return replace(pv, **fields)  # type: ignore[arg-type]


def made(control: Control, maker: CsiProvisioner, wish: Provision = WISH) -> str:
    """Have a volume made, and give its handle."""
    return str(maker.provision(wish, control.host).source["csi"]["volumeHandle"])


def test_a_volume_is_made_once_for_a_name(control: Control, maker: CsiProvisioner) -> None:
    first = maker.provision(WISH, control.host)
    assert maker.provision(WISH, control.host) == first
    (there,) = control.fault.volumes.all()
    assert first.source == {"csi": {"driver": NAME, "volumeHandle": there.id}}
    assert (first.size, first.node_affinity, first.annotations) == (16 * MIB, None, {})


def test_what_the_driver_answers_is_what_the_volume_says(tmp_path: Path) -> None:
    with controlled(tmp_path, controller=EVERYTHING, topology={"zone": "a"}) as control:
        maker = CsiProvisioner(control.host)
        parameters = {"tier": "gold", "csi.storage.k8s.io/fstype": "xfs", **WITH_KEY}
        found = maker.provision(replace(classed(parameters=parameters), objects={KEY: SECRET}), control.host)
        (there,) = control.fault.volumes.all()
        assert found.source["csi"] == {
            "driver": NAME,
            "volumeHandle": there.id,
            "fsType": "xfs",
            "volumeAttributes": {"tier": "gold"},
            "controllerExpandSecretRef": {"name": "key", "namespace": "vault"},
        }
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
        assert found.node_affinity == {"required": {"nodeSelectorTerms": [term]}}
        assert found.annotations == {
            "volume.kubernetes.io/provisioner-deletion-secret-name": "key",
            "volume.kubernetes.io/provisioner-deletion-secret-namespace": "vault",
        }


@pytest.mark.parametrize(
    ("modes", "several", "asked"),
    [
        (("ReadWriteOnce",), False, ["SINGLE_NODE_WRITER"]),
        (("ReadWriteOnce",), True, ["SINGLE_NODE_MULTI_WRITER"]),
        (("ReadWriteOncePod",), False, ["SINGLE_NODE_WRITER"]),
        (("ReadWriteOncePod",), True, ["SINGLE_NODE_SINGLE_WRITER"]),
        (("ReadOnlyMany", "ReadWriteMany"), False, ["MULTI_NODE_READER_ONLY", "MULTI_NODE_MULTI_WRITER"]),
        ((), False, ["SINGLE_NODE_WRITER"]),
    ],
)
def test_each_access_mode_of_a_claim_is_asked_for(
    tmp_path: Path, modes: tuple[str, ...], asked: list[str], *, several: bool
) -> None:
    with controlled(tmp_path, controller=EVERYTHING if several else CONTROLLER) as control:
        wish = replace(WISH, claim=replace(CLAIM, access_modes=modes))
        CsiProvisioner(control.host).provision(wish, control.host)
        (call,) = control.fault.calls()
        assert [each["accessMode"]["mode"] for each in call.request["volumeCapabilities"]] == asked


def test_a_block_volume_has_no_file_system(control: Control, maker: CsiProvisioner) -> None:
    wish = classed(parameters={"csi.storage.k8s.io/fstype": "xfs"}, mount_options=("noatime",))
    found = maker.provision(replace(wish, claim=replace(CLAIM, volume_mode=VolumeMode.BLOCK)), control.host)
    (call,) = control.fault.calls()
    assert call.request["volumeCapabilities"] == [{"block": {}, "accessMode": {"mode": "SINGLE_NODE_WRITER"}}]
    assert "fsType" not in found.source["csi"]


def test_names_of_the_claim_are_told_where_that_is_asked_for(control: Control, maker: CsiProvisioner) -> None:
    host = control.host.with_settings(CsiSettings(extra_create_metadata=True))
    maker.provision(WISH, host)
    (call,) = control.fault.calls()
    assert call.request["parameters"] == {
        "csi.storage.k8s.io/pvc/name": "orders",
        "csi.storage.k8s.io/pvc/namespace": "shop",
        "csi.storage.k8s.io/pv/name": MADE,
    }


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("CANCELLED", UncertainError),
        ("DEADLINE_EXCEEDED", UncertainError),
        ("UNAVAILABLE", UncertainError),
        ("ABORTED", UncertainError),
        ("ALREADY_EXISTS", UncertainError),
        ("RESOURCE_EXHAUSTED", OperationError),
        ("INVALID_ARGUMENT", OperationError),
        ("OUT_OF_RANGE", OperationError),
        ("INTERNAL", TransientError),
        ("UNKNOWN", TransientError),
        ("PERMISSION_DENIED", TransientError),
        ("UNAUTHENTICATED", TransientError),
    ],
)
def test_a_code_says_whether_something_may_have_been_made(
    control: Control, maker: CsiProvisioner, code: str, outcome: type[VolmgrError]
) -> None:
    control.fault.script(Rule(method="CreateVolume", code=code, message="the driver's words"))
    with pytest.raises(outcome, match=f"CreateVolume of csi driver {NAME} failed: {code}: the driver's words"):
        maker.provision(WISH, control.host)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"volume": {"volumeId": ""}}, "gave no volume_id"),
        ({"volume": {"capacityBytes": "1"}}, f"of 1 bytes, less than the {16 * MIB}"),
    ],
    ids=["no id", "too small"],
)
def test_an_answer_that_is_none_loses_no_volume(
    control: Control, maker: CsiProvisioner, answer: dict[str, object], words: str
) -> None:
    control.fault.script(Rule(method="CreateVolume", answer=answer))
    with pytest.raises(UncertainError, match=words):
        maker.provision(WISH, control.host)


def test_a_size_that_the_driver_does_not_say_is_left_to_who_asked(control: Control, maker: CsiProvisioner) -> None:
    control.fault.script(Rule(method="CreateVolume", answer={"volume": {"capacityBytes": "0"}}))
    assert maker.provision(WISH, control.host).size == 0


@pytest.mark.parametrize("size", ["-1", "8Ei", "1e30"])
def test_a_size_that_csi_cannot_say_is_the_claims_fault(control: Control, maker: CsiProvisioner, size: str) -> None:
    asked = Quantity.parse(size)
    with pytest.raises(SpecError, match=r"resources\.requests\.storage: .* bytes are no size of a volume"):
        maker.provision(replace(WISH, claim=replace(CLAIM, requests={"storage": asked})), control.host)
    handle = made(control, maker)
    with pytest.raises(SpecError, match=r"resources\.requests\.storage"):
        maker.grow(GrowVolume(volume=volume(handle), storage_class=FAST, size=asked.to_int()), control.host)
    assert control.methods() == ["CreateVolume"]


def test_a_secret_is_named_told_and_waited_for(control: Control, maker: CsiProvisioner) -> None:
    wish = classed(parameters=WITH_KEY)
    assert maker.references(wish) == (KEY,)
    with pytest.raises(TransientError) as raised:
        maker.provision(wish, control.host)
    assert raised.value.waits_for == str(KEY)
    assert control.methods() == []
    maker.provision(replace(wish, objects={KEY: SECRET}), control.host)
    assert control.fault.calls()[0].request["secrets"] == {"password": "very secret"}
    assert maker.references(WISH) == ()


def test_a_class_that_leaves_this_node_out_is_refused_without_a_call(control: Control, maker: CsiProvisioner) -> None:
    term = {"matchLabelExpressions": [{"key": "zone", "values": ["b"]}]}
    with pytest.raises(SpecError, match="no term allows that"):
        maker.provision(classed(allowed_topologies=(term,)), control.host)
    assert control.methods() == []


def test_it_serves_drivers_that_make_volumes_here_while_they_are_registered(tmp_path: Path) -> None:
    with controlled(tmp_path, controller=(ATTACH,)) as control:
        maker = CsiProvisioner(control.host)
        assert not maker.serves(NAME)
        with pytest.raises(PluginError, match="makes no volumes"):
            maker.provision(WISH, control.host)
        control.known.put(replace(control.register(), controller=frozenset({CREATE})))
        assert maker.serves(NAME)
        assert not maker.serves("other.csi.test")
        control.known.drop(NAME)
        assert not maker.serves(NAME)
        with pytest.raises(TransientError) as raised:
            maker.provision(WISH, control.host)
        assert raised.value.waits_for == driver_awaited(NAME)


# --- growing ---


@pytest.mark.parametrize("by_nodes", [True, False])
def test_a_volume_grows_and_the_driver_says_whether_nodes_have_a_part(tmp_path: Path, *, by_nodes: bool) -> None:
    with controlled(tmp_path, node_expansion=by_nodes) as control:
        maker = CsiProvisioner(control.host)
        handle = made(control, maker)
        grown = maker.grow(GrowVolume(volume=volume(handle), storage_class=FAST, size=32 * MIB), control.host)
        assert (grown.size, grown.by_nodes) == (32 * MIB, by_nodes)
        assert control.fault.volumes.get(handle).size == 32 * MIB


def test_growth_has_its_secret(control: Control, maker: CsiProvisioner) -> None:
    handle = made(control, maker)
    source = {
        "driver": NAME,
        "volumeHandle": handle,
        "controllerExpandSecretRef": {"name": "key", "namespace": "vault"},
    }
    request = GrowVolume(volume=volume(handle, source=source), storage_class=FAST, size=32 * MIB)
    assert maker.references(request) == (KEY,)
    with pytest.raises(TransientError):
        maker.grow(request, control.host)
    maker.grow(replace(request, objects={KEY: SECRET}), control.host)
    assert control.fault.calls("ControllerExpandVolume")[0].request["secrets"] == {"password": "very secret"}


def test_a_driver_whose_nodes_alone_grow_volumes_is_not_asked(tmp_path: Path) -> None:
    with controlled(tmp_path, controller=(CREATE,)) as control:
        maker = CsiProvisioner(control.host)
        grown = maker.grow(GrowVolume(volume=volume("x"), storage_class=FAST, size=32 * MIB), control.host)
        assert (grown.size, grown.by_nodes, control.methods()) == (32 * MIB, True, [])
        known = control.register()
        control.known.put(replace(known, abilities=replace(known.abilities, expand=False)))
        with pytest.raises(SpecError, match="grows no volumes"):
            maker.grow(GrowVolume(volume=volume("x"), storage_class=FAST, size=32 * MIB), control.host)


# --- deleting ---


def test_a_volume_is_deleted_and_one_that_is_not_there_is(control: Control, maker: CsiProvisioner) -> None:
    request = DeleteVolume(volume=volume(made(control, maker)), storage_class=FAST)
    for _ in range(2):
        maker.delete(request, control.host)
        assert control.fault.volumes.all() == []
    control.fault.script(Rule(method="DeleteVolume", code="NOT_FOUND"))
    maker.delete(request, control.host)


@pytest.mark.parametrize(
    ("code", "outcome"), [("FAILED_PRECONDITION", OperationError), ("UNAVAILABLE", UncertainError)]
)
def test_a_deletion_that_fails_says_so(
    control: Control, maker: CsiProvisioner, code: str, outcome: type[VolmgrError]
) -> None:
    handle = made(control, maker)
    control.fault.script(Rule(method="DeleteVolume", code=code))
    with pytest.raises(outcome, match=f"DeleteVolume of csi driver {NAME} failed: {code}"):
        maker.delete(DeleteVolume(volume=volume(handle), storage_class=FAST), control.host)


def test_a_volume_that_is_perhaps_attached_is_not_deleted(control: Control, maker: CsiProvisioner) -> None:
    handle = made(control, maker)
    attachments = Attachments(control.host)
    attachments.put("csi-1", Attachment(driver=NAME, handle=handle, node_id="machine-1", state=ATTACHED))
    request = DeleteVolume(volume=volume(handle), storage_class=FAST)
    with pytest.raises(OperationError, match="is still attached to machine-1"):
        maker.delete(request, control.host)
    assert control.methods() == ["CreateVolume"]
    attachments.remove("csi-1")
    maker.delete(request, control.host)
    assert control.fault.volumes.all() == []


def test_a_volume_of_which_a_damaged_record_may_be_is_not_deleted(tmp_path: Path) -> None:
    with controlled(tmp_path, controller=(*CONTROLLER, ATTACH)) as control:
        maker = CsiProvisioner(control.host)
        request = DeleteVolume(volume=volume(made(control, maker)), storage_class=FAST)
        attachments = Attachments(control.host)
        attachments.put("csi-1", Attachment(driver=NAME, handle="x", node_id="machine-1", state=ATTACHED))
        record = control.host.paths.state / "csi/attachments/csi-1.json"
        control.host.files.write(record, b"{half")
        with pytest.raises(OperationError, match=f"may still be attached: {record} cannot be read; restore it"):
            maker.delete(request, control.host)
        assert control.methods() == ["CreateVolume"]
        attachments.remove("csi-1")
        maker.delete(request, control.host)
        assert control.fault.volumes.all() == []


def test_deleting_has_the_secret_of_making_as_long_as_it_is_there(control: Control, maker: CsiProvisioner) -> None:
    found = maker.provision(replace(classed(parameters=WITH_KEY), objects={KEY: SECRET}), control.host)
    meta = ObjectMeta(name=MADE, annotations=found.annotations)
    request = DeleteVolume(volume=volume(str(found.source["csi"]["volumeHandle"]), metadata=meta), storage_class=FAST)
    assert maker.references(request) == (KEY,)
    maker.delete(replace(request, objects={KEY: SECRET}), control.host)
    maker.delete(request, control.host)
    assert [call.request.get("secrets") for call in control.fault.calls("DeleteVolume")] == [
        {"password": "very secret"},
        None,
    ]


def test_a_volume_of_another_type_is_no_volume_of_csi(control: Control, maker: CsiProvisioner) -> None:
    other = volume("x", type="hostPath", source={"path": "/srv"})
    with pytest.raises(SpecError, match="is no volume of csi"):
        maker.delete(DeleteVolume(volume=other, storage_class=FAST), control.host)


# --- strangers ---


def test_volumes_that_look_made_for_claims_and_are_nobodys_are_named(control: Control, maker: CsiProvisioner) -> None:
    other = MADE.replace("030f", "ffff")
    for handle in (MADE, f"{other}-2", "an-administrators", f"snap-{MADE}-x"):
        control.fault.add_volume(handle)
    control.fault.add_volume("opaque", context={"csi.storage.k8s.io/pv/name": other})
    assert set(maker.strangers(NAME, frozenset({MADE}), control.host, LATER)) == {f"{other}-2", "opaque"}
    assert maker.strangers(NAME, frozenset({MADE, "opaque", f"{other}-2"}), control.host, LATER) == ()
    assert maker.strangers("other.csi.test", frozenset(), control.host, LATER) == ()


def test_volumes_are_listed_page_by_page(control: Control, maker: CsiProvisioner) -> None:
    control.fault.add_volume(MADE)
    control.fault.script(Rule(method="ListVolumes", answer={"nextToken": "1", "entries": []}))
    assert maker.strangers(NAME, frozenset(), control.host, LATER) == ()
    assert [call.request.get("startingToken") for call in control.fault.calls("ListVolumes")] == [None, "1"]


def test_a_driver_that_lists_nothing_names_none(tmp_path: Path) -> None:
    with controlled(tmp_path, controller=(CREATE,)) as control:
        control.fault.add_volume(MADE)
        assert CsiProvisioner(control.host).strangers(NAME, frozenset(), control.host, LATER) == ()
