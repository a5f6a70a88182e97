"""What a StorageClass says besides its driver's parameters, read as external-provisioner reads it; and its topology."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from volmgr.model.meta import ObjectMeta
from volmgr.model.objects import PersistentVolumeClaim
from volmgr.plugin import SecretReference, SpecError
from volmgr_csi.controller.parameters import Parameters, Use, read_parameters
from volmgr_csi.controller.topology import check_allowed, node_affinity

CLAIM = PersistentVolumeClaim(
    metadata=ObjectMeta(name="orders", namespace="shop", uid="u1", annotations={"example.com/key": "orders-key"})
)
P = "csi.storage.k8s.io/"


def read(given: Mapping[str, str]) -> Parameters:
    return read_parameters(given, "pvc-u1", CLAIM)


def secret(name: str, namespace: str, use: str = "node-stage-") -> Mapping[str, str]:
    return {f"{P}{use}secret-name": name, f"{P}{use}secret-namespace": namespace}


def test_a_driver_is_told_everything_but_what_has_the_prefix() -> None:
    given = {"tier": "gold", f"{P}fstype": "xfs", **secret("s", "n", "provisioner-"), "csiNodeStageSecretNam": "x"}
    assert read(given) == Parameters(
        told={"tier": "gold", "csiNodeStageSecretNam": "x"},
        fs_type="xfs",
        secrets={Use.PROVISIONER: SecretReference(name="s", namespace="n")},
    )


@pytest.mark.parametrize(
    ("given", "fs_type"), [({}, ""), ({"fstype": "ext4"}, "ext4"), ({"FSType": "xfs"}, "xfs")], ids=str
)
def test_the_file_system_is_the_drivers_choice_unless_it_is_named(given: Mapping[str, str], fs_type: str) -> None:
    found = read(given)
    assert (found.fs_type, found.told) == (fs_type, given)


@pytest.mark.parametrize(
    ("name", "namespace", "found"),
    [
        ("plain", "vault", SecretReference(name="plain", namespace="vault")),
        ("${pv.name}", "${pvc.namespace}", SecretReference(name="pvc-u1", namespace="shop")),
        ("${pvc.name}-x", "${pv.name}", SecretReference(name="orders-x", namespace="pvc-u1")),
        ("${pvc.annotations['example.com/key']}", "vault", SecretReference(name="orders-key", namespace="vault")),
    ],
)
def test_names_of_secrets_are_templates(name: str, namespace: str, found: SecretReference) -> None:
    assert read(secret(name, namespace)).secrets == {Use.NODE_STAGE: found}


def test_a_secret_for_all_uses_is_that_of_each_without_one_of_its_own() -> None:
    found = read({**secret("all", "vault", ""), **secret("own", "vault", "node-publish-")}).secrets
    assert {use: reference.name for use, reference in found.items()} == {
        use: "own" if use is Use.NODE_PUBLISH else "all" for use in Use
    }


def test_keys_from_before_the_prefix_count_and_are_told() -> None:
    given = {"csiControllerPublishSecretName": "old", "csiControllerPublishSecretNamespace": "vault"}
    found = read(given)
    assert found.secrets == {Use.CONTROLLER_PUBLISH: SecretReference(name="old", namespace="vault")}
    assert found.told == given


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({f"{P}fstyp": "xfs"}, f"{P}fstyp is no key of {P}"),
        ({"fstype": "xfs", f"{P}fstype": "xfs"}, "named by both fstype"),
        ({f"{P}node-stage-secret-name": "s"}, "node-stage-secret-namespace go together"),
        (secret("", "n"), "go together; set both"),
        (
            secret("${pvc.uid}", "n"),
            r"'\$\{pvc.uid\}' has \$\{pvc.uid\}, which nothing stands for; there are \$\{pv.name\}",
        ),
        (secret("s", "${pvc.name}"), r"which nothing stands for; there are \$\{pv.name\}, \$\{pvc.namespace\}$"),
        (secret("s", "${pvc.annotations['example.com/key']}"), "which nothing stands for"),
        (secret("${pvc.annotations['example.com/key']}", "n", "provisioner-"), "which nothing stands for"),
        (secret("Not_Valid", "n"), "becomes 'Not_Valid', which is no name of a Secret"),
        (secret("s", "a.b"), "becomes 'a.b', which is no name of a namespace"),
        (
            {"csiNodeStageSecretName": "a", "csiNodeStageSecretNamespace": "b", **secret("s", "n")},
            "name one thing twice",
        ),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value,
)
def test_what_cannot_be_meant_is_refused_by_its_key(given: Mapping[str, str], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        read(given)


# --- topology ---


def allowed(*values: str, key: str = "zone") -> Mapping[str, object]:
    return {"matchLabelExpressions": [{"key": key, "values": list(values)}]}


def test_a_class_allows_a_node_that_one_of_its_terms_fits() -> None:
    check_allowed((), {"zone": "a"}, "d")
    check_allowed((allowed("b"), allowed("a", "c")), {"zone": "a"}, "d")
    with pytest.raises(SpecError, match="this node is zone=a to driver d, and no term allows that"):
        check_allowed((allowed("b"), allowed("a", key="rack")), {"zone": "a"}, "d")
    with pytest.raises(SpecError, match="nowhere in particular"):
        check_allowed((allowed("b"),), {}, "d")
    with pytest.raises(SpecError, match="has a key and values"):
        check_allowed(({"matchLabelExpressions": ["zone"]},), {}, "d")


def test_a_volume_says_from_where_it_is_reachable() -> None:
    assert node_affinity([]) is None
    assert node_affinity([{}]) is None
    assert node_affinity([{"zone": "a", "rack": "1"}, {"zone": "b"}]) == {
        "required": {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        {"key": "rack", "operator": "In", "values": ["1"]},
                        {"key": "zone", "operator": "In", "values": ["a"]},
                    ]
                },
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]},
            ]
        }
    }
