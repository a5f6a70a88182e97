"""Claims with kubelet's checks and messages; Pod limits with init, sidecar and overhead rules; quantities."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volmgr import claims, jobs, limits
from volmgr.errors import OperationError, SpecError
from volmgr.model.meta import ObjectMeta, ObjectRef, OwnerReference
from volmgr.model.objects import Node, Object, PersistentVolumeClaim
from volmgr.model.pod import Container, Pod, PodSecurityContext, PodSpec, PodVolume, ResourceRequirements
from volmgr.model.quantity import Quantity
from volmgr.model.volume import ClaimRef, PersistentVolume, VolumeMode

GIB = 1 << 30
CLAIM = PodVolume(name="data", type="persistentVolumeClaim", source={"claimName": "c1"})
EPHEMERAL = PodVolume(name="scratch", type="ephemeral", source={})
PVC_REF = ObjectRef("PersistentVolumeClaim", "default", "c1")
POD = Pod(metadata=ObjectMeta(name="web", uid="u1"), spec=PodSpec())


class Known:
    """Objects by reference."""

    def __init__(self, *items: tuple[ObjectRef, Object]) -> None:
        self._items = dict(items)

    def get(self, ref: ObjectRef, /) -> Object | None:
        return self._items.get(ref)

    def awaited(self, ref: ObjectRef, /) -> str:
        del ref
        return ""

    def absence(self, ref: ObjectRef, /) -> str:
        del ref
        return ""


def pv(owner: ClaimRef | None = None) -> tuple[ObjectRef, PersistentVolume]:
    return ObjectRef("PersistentVolume", "", "pv1"), PersistentVolume(metadata=ObjectMeta(name="pv1"), claim_ref=owner)


def pvc(name: str = "c1", volume: str = "pv1", **meta: object) -> tuple[ObjectRef, PersistentVolumeClaim]:
    metadata = ObjectMeta(name=name, **meta)  # type: ignore[arg-type]
    return ObjectRef("PersistentVolumeClaim", "default", name), PersistentVolumeClaim(
        metadata=metadata, volume_name=volume
    )


def test_a_bound_claim_gives_its_volume_and_whether_the_pod_wants_it_read_only() -> None:
    bound = claims.resolve(POD, CLAIM, Known(pvc(), pv()))
    assert (bound.volume.metadata.name, bound.read_only) == ("pv1", False)
    read_only = PodVolume(name="data", type="persistentVolumeClaim", source={"claimName": "c1", "readOnly": True})
    assert claims.resolve(POD, read_only, Known(pvc(), pv())).read_only


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (Known(), "PersistentVolumeClaim default/c1 does not exist; add it to the manifests"),
        (Known(pvc()), "PersistentVolume pv1, to which PersistentVolumeClaim default/c1 is bound, does not exist"),
        (Known(pvc(volume="")), "PVC default/c1: PVC has empty pvc.Spec.VolumeName"),
        (Known(pvc(deletion_timestamp="now"), pv()), "PVC default/c1: PVC is being deleted"),
        (
            Known(pvc(uid="2"), pv(ClaimRef(namespace="default", name="c1", uid="1"))),
            "PersistentVolume pv1: claimRef UID 1 is not the UID of PersistentVolumeClaim default/c1",
        ),
        (
            Known(pvc(), pv(ClaimRef(namespace="other", name="c1"))),
            "PersistentVolume pv1 belongs to claim other/c1, not to PersistentVolumeClaim default/c1",
        ),
    ],
)
def test_a_claim_that_cannot_be_used_says_why(known: Known, message: str) -> None:
    with pytest.raises(OperationError) as error:
        claims.resolve(POD, CLAIM, known)
    assert str(error.value).startswith(message)


def test_a_claim_that_is_being_deleted_and_protected_may_still_be_used() -> None:
    protected = pvc(deletion_timestamp="now", finalizers=("kubernetes.io/pvc-protection",))
    assert claims.resolve(POD, CLAIM, Known(protected, pv())).claim is protected[1]


@pytest.mark.parametrize(
    "owners",
    [
        (),
        (OwnerReference(kind="Pod", name="web", uid="other", controller=True),),
        (OwnerReference(kind="Pod", name="web", uid="u1"),),
    ],
    ids=["none", "another pod", "not its controller"],
)
def test_an_ephemeral_claim_must_be_controlled_by_its_pod(owners: tuple[OwnerReference, ...]) -> None:
    known = Known(pvc("web-scratch", owner_references=owners), pv())
    message = r"PVC default/web-scratch was not created for pod default/web \(pod is not owner\)"
    with pytest.raises(OperationError, match=message):
        claims.resolve(POD, EPHEMERAL, known)


def test_an_ephemeral_claim_of_its_pod_is_used() -> None:
    owner = OwnerReference(kind="Pod", name="web", uid="u1", controller=True)
    known = Known(pvc("web-scratch", owner_references=(owner,)), pv())
    assert claims.resolve(POD, EPHEMERAL, known).volume.metadata.name == "pv1"


@pytest.mark.parametrize(
    ("value", "groups", "extra"),
    [("777", (), 777), ("777", (777,), None), ("777", (5,), 777), ("x", (), None), ("-7", (), None), ("", (), None)],
)
def test_a_volume_s_annotation_adds_a_group_that_the_pod_does_not_have(
    value: str, groups: tuple[int, ...], extra: int | None
) -> None:
    security = PodSecurityContext(supplemental_groups=groups)
    pod = Pod(metadata=ObjectMeta(name="web"), spec=PodSpec(security_context=security))
    volume = PersistentVolume(metadata=ObjectMeta(name="pv1", annotations={"pv.beta.kubernetes.io/gid": value}))
    assert claims.extra_group(pod, volume) == extra


@pytest.mark.parametrize(
    ("annotation", "given", "options"),
    [
        (None, ("vers=4", "sync", "sync"), ("sync", "vers=4")),
        ("noatime, ro", ("sync",), ("noatime", "ro")),
        ("", ("sync",), ()),
        (None, (), ()),
        (None, ("ro,noatime", "sync"), ("noatime", "ro", "sync")),
        (None, ('context="a:b:c:s0,c1",ro',), ('context="a:b:c:s0,c1"', "ro")),
    ],
)
def test_mount_options_are_sorted_and_the_annotation_s_win(
    annotation: str | None, given: tuple[str, ...], options: tuple[str, ...]
) -> None:
    annotations = {} if annotation is None else {"volume.beta.kubernetes.io/mount-options": annotation}
    volume = PersistentVolume(metadata=ObjectMeta(name="pv1", annotations=annotations), mount_options=given)
    assert claims.mount_options(volume) == options


def test_an_option_that_says_writable_does_not_undo_read_only() -> None:
    options = ("noatime", "rw", 'context="a:b:c:s0,c1",rw')
    assert jobs.mount_options(options, read_only=True) == ('context="a:b:c:s0,c1"', "noatime", "ro")
    assert jobs.mount_options(options, read_only=False) == ("noatime", "rw", 'context="a:b:c:s0,c1"', "rw")


def test_a_claim_that_is_not_bound_says_what_it_waits_for() -> None:
    ref, claim = pvc()
    waiting = replace(claim, phase="Pending", message="no PersistentVolume fits it")
    with pytest.raises(OperationError, match=r"^PVC default/c1: PVC is not bound: no PersistentVolume fits it$"):
        claims.resolve(POD, CLAIM, Known((ref, waiting), pv()))
    with pytest.raises(OperationError, match=r"^PVC default/c1: PVC is not bound: its phase is Lost$"):
        claims.resolve(POD, CLAIM, Known((ref, replace(claim, phase="Lost")), pv()))


def test_a_volume_s_mode_must_fit_its_use() -> None:
    message = "volume vol has volumeMode Block, but is specified in volumeMounts"
    with pytest.raises(SpecError, match=message):
        claims.check_mode("vol", VolumeMode.BLOCK, mounted=True, mapped=False)
    message = "volume vol has volumeMode Filesystem, but is specified in volumeDevices"
    with pytest.raises(SpecError, match=message):
        claims.check_mode("vol", VolumeMode.FILESYSTEM, mounted=False, mapped=True)
    claims.check_mode("vol", VolumeMode.BLOCK, mounted=False, mapped=True)
    claims.check_mode("vol", VolumeMode.FILESYSTEM, mounted=True, mapped=False)


NODE = Node(metadata=ObjectMeta(name="n1", labels={"zone": "a", "disks": "4"}))


@pytest.mark.parametrize(
    ("requirement", "fits"),
    [
        ({"key": "zone", "operator": "In", "values": ["a", "b"]}, True),
        ({"key": "zone", "operator": "In", "values": ["b"]}, False),
        ({"key": "zone", "operator": "NotIn", "values": ["b"]}, True),
        ({"key": "none", "operator": "NotIn", "values": ["b"]}, True),
        ({"key": "zone", "operator": "NotIn", "values": ["a"]}, False),
        ({"key": "zone", "operator": "Exists"}, True),
        ({"key": "none", "operator": "Exists"}, False),
        ({"key": "none", "operator": "DoesNotExist"}, True),
        ({"key": "disks", "operator": "Gt", "values": ["3"]}, True),
        ({"key": "disks", "operator": "Gt", "values": ["4"]}, False),
        ({"key": "disks", "operator": "Lt", "values": ["5"]}, True),
        ({"key": "zone", "operator": "Gt", "values": ["3"]}, False),
        ({"key": "none", "operator": "Lt", "values": ["3"]}, False),
        ({"key": "zone", "operator": "Resembles", "values": ["a"]}, False),
    ],
)
def test_a_volume_s_node_affinity_is_checked_against_the_node_s_labels(
    requirement: dict[str, object], fits: bool
) -> None:
    volume = PersistentVolume(
        metadata=ObjectMeta(name="pv1"),
        node_affinity={"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}},
    )
    claims.check_node(volume, None)
    if fits:
        claims.check_node(volume, NODE)
        return
    with pytest.raises(OperationError, match="PersistentVolume pv1: its nodeAffinity does not match node n1"):
        claims.check_node(volume, NODE)


def test_one_term_is_enough_an_empty_one_fits_nothing_and_a_field_is_the_node_s_name() -> None:
    def affinity(*terms: dict[str, object]) -> PersistentVolume:
        required = {"required": {"nodeSelectorTerms": list(terms)}}
        return PersistentVolume(metadata=ObjectMeta(name="pv1"), node_affinity=required)

    named: dict[str, object] = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    claims.check_node(affinity({}, named), NODE)
    with pytest.raises(OperationError, match="nodeAffinity"):
        claims.check_node(affinity({}), NODE)


# --- limits ---


def container(name: str = "c", restart: str = "", **amounts: str) -> Container:
    found = {key.replace("_", "-"): Quantity.parse(text) for key, text in amounts.items()}
    return Container(name=name, restart_policy=restart, resources=ResourceRequirements(limits=found))


def limited(*main: Container, init: tuple[Container, ...] = (), **spec: object) -> Pod:
    return Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(containers=main, init_containers=init, **spec))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (limited(), 0),
        (limited(container()), 0),
        (limited(container(memory="1Gi"), container(memory="2Gi")), 3 * GIB),
        (limited(container(memory="1Gi"), init=(container(memory="3Gi"), container(memory="2Gi"))), 3 * GIB),
        (limited(container(memory="2Gi"), init=(container("s", "Always", memory="1Gi"),)), 3 * GIB),
        (
            limited(container(memory="1Gi"), init=(container("s", "Always", memory="1Gi"), container(memory="3Gi"))),
            4 * GIB,
        ),
        (
            limited(container(memory="1Gi"), init=(container(memory="3Gi"), container("s", "Always", memory="1Gi"))),
            3 * GIB,
        ),
        (limited(container(memory="1Gi"), overhead={"memory": Quantity.parse("1Mi")}), GIB + (1 << 20)),
        (limited(container(), overhead={"memory": Quantity.parse("1Mi")}), 0),
        (
            limited(container(memory="1Gi"), resources=ResourceRequirements(limits={"memory": Quantity.parse("5Gi")})),
            5 * GIB,
        ),
    ],
    ids=[
        "nothing",
        "no limit",
        "containers add up",
        "the largest init container",
        "sidecars run beside",
        "an init container after a sidecar",
        "an init container before a sidecar",
        "overhead",
        "overhead without a limit",
        "the Pod's own limit",
    ],
)
def test_a_pod_s_limit(pod: Pod, expected: int) -> None:
    assert limits.pod_limit(pod, "memory") == expected


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        (PodVolume(name="v"), 2 * GIB),
        (PodVolume(name="v", source={"sizeLimit": "1Gi"}), GIB),
        (PodVolume(name="v", source={"sizeLimit": "3Gi"}), 2 * GIB),
        (PodVolume(name="v", source={"medium": "Memory", "sizeLimit": "1Gi"}), 0),
        (PodVolume(name="v", type="configMap"), 2 * GIB),
        (PodVolume(name="v", type="gitRepo"), 2 * GIB),
        (PodVolume(name="v", type="secret"), 0),
        (PodVolume(name="v", type="hostPath"), 0),
    ],
)
def test_the_size_limit_of_a_volume_on_the_node_s_own_storage(volume: PodVolume, expected: int) -> None:
    pod = limited(container(ephemeral_storage="1Gi"), container(ephemeral_storage="1Gi"))
    assert limits.local_size_limit(pod, volume) == expected


def test_memory_is_limited_by_the_pod_and_the_node() -> None:
    node = Node(metadata=ObjectMeta(name="n"), allocatable={"memory": Quantity.parse("2Gi")})
    assert limits.memory_limit(limited(container()), None) == 0
    assert limits.memory_limit(limited(container()), node) == 2 * GIB
    assert limits.memory_limit(limited(container(memory="1Gi")), node) == GIB
    assert limits.memory_limit(limited(container(memory="3Gi")), node) == 2 * GIB


# --- quantities ---

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]


@given(st.integers(-(10**9), 10**9), st.sampled_from(SUFFIXES))
def test_a_quantity_keeps_its_text_and_is_read_back_equal(number: int, suffix: str) -> None:
    quantity = Quantity.parse(f"{number}{suffix}")
    assert str(quantity) == f"{number}{suffix}"
    assert Quantity.parse(str(quantity)) == quantity
    assert (quantity.value < 0) == (number < 0)


@given(st.integers(0, 10**18))
def test_an_integer_is_itself(number: int) -> None:
    assert Quantity.of(number).to_int() == number
    assert Quantity.parse(str(number)).to_int() == number


@given(st.fractions(min_value=0, max_value=10**6, max_denominator=1000))
def test_a_quantity_is_rounded_up(value: Fraction) -> None:
    whole = Quantity(value, "").to_int()
    assert value <= whole < value + 1


@pytest.mark.parametrize(
    ("text", "value"),
    [("123Ki", 125952), ("1.5Gi", 1610612736), ("2e3", 2000), ("1E3", 1000), ("1E", 10**18), (".5k", 500), ("100m", 1)],
)
def test_quantities_as_kubernetes_reads_them(text: str, value: int) -> None:
    assert Quantity.parse(text).to_int() == value


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1gi", "1KB", "0x10", "--1", "1e", "9" * 65, "\uff11"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity; write a number with an optional suffix"):
        Quantity.parse(text)
