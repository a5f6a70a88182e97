"""Manifest files to the nouns of the model."""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volmgr.manifest import LIMIT, Item, Parsed, parse, recall
from volmgr.model.meta import ObjectMeta
from volmgr.model.names import default_uid
from volmgr.model.objects import (
    ConfigMap,
    CSIDriver,
    Node,
    PersistentVolumeClaim,
    Secret,
    ServiceAccount,
    StorageClass,
)
from volmgr.model.pod import Pod
from volmgr.model.quantity import Quantity
from volmgr.model.volume import ClaimRef, PersistentVolume, VolumeMode


@dataclass(frozen=True, slots=True, kw_only=True)
class NfsSource:
    server: str
    path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayAttributes:
    volume_attributes: Mapping[str, str]


class Types:
    """nfs is installed, a csi driver, and a field of somebody else's."""

    def source_of(self, field: str, driver: str | None) -> type[object] | None:
        if (field, driver) == ("csi", "overlay.example.com"):
            return OverlayAttributes
        return NfsSource if field == "nfs" else None

    def known(self, field: str) -> bool:
        return field in {"nfs", "exampleDisk"}

    def repair(self, field: str) -> str:
        del field
        return ""


def pod(**changes: object) -> dict[str, object]:
    document: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {
            "containers": [{"name": "main", "volumeMounts": [{"name": "a", "mountPath": "/a"}]}],
            "volumes": [{"name": "a", "emptyDir": {}}],
        },
    }
    for path, value in changes.items():
        put(document, path.split("__"), value)
    return document


def put(target: object, path: list[str], value: object) -> None:
    if isinstance(target, list):
        entries, index = cast("list[object]", target), int(path[0])
        if len(path) == 1:
            entries[index] = value
        else:
            put(entries[index], path[1:], value)
    else:
        members = cast("dict[str, object]", target)
        if len(path) == 1:
            members[path[0]] = value
        else:
            put(members[path[0]], path[1:], value)


def read(*documents: object, types: Types | None = None) -> Parsed:
    return parse(b"\n---\n".join(map(dump, documents)), "web.yaml", types)


def dump(document: object) -> bytes:
    return json.dumps(document, indent=1).encode()


def value(document: object) -> object:
    parsed = read(document)
    assert parsed.errors == ()
    (item,) = parsed.items
    return item.value


def errors(document: object, types: Types | None = None) -> list[str]:
    return [str(error) for error in read(document, types=types).errors]


def test_a_pod_is_read_whole() -> None:
    found = value(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "web",
                "namespace": "shop",
                "uid": "u-1",
                "labels": {"app": "web"},
                "creationTimestamp": "2024-01-02T03:04:05Z",
                "deletionTimestamp": None,
                "somethingNew": 1,
            },
            "spec": {
                "initContainers": [
                    {"name": "side", "restartPolicy": "Always", "resources": {"limits": {"memory": "1Mi"}}}
                ],
                "containers": [
                    {
                        "name": "main",
                        "image": "nginx",
                        "ports": [{"containerPort": 80}],
                        "volumeMounts": [{"name": "a", "mountPath": "/a", "readOnly": True, "subPath": "x/y"}],
                        "volumeDevices": [{"name": "b", "devicePath": "/dev/b"}],
                        "securityContext": {"runAsUser": 7, "seLinuxOptions": {"level": "s0"}},
                    }
                ],
                "ephemeralContainers": [{"name": "debug"}],
                "volumes": [
                    {"name": "a", "emptyDir": {"medium": "Memory", "sizeLimit": None}},
                    {"name": "b", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
                    {"name": "c"},
                ],
                "securityContext": {"fsGroup": 5, "supplementalGroups": [1, 2]},
                "overhead": {"memory": "1Mi"},
                "hostUsers": False,
                "tolerations": [],
            },
            "status": {"phase": "Running", "conditions": []},
        }
    )
    assert isinstance(found, Pod)
    assert (found.key, found.uid, found.status.phase) == ("shop/web", "u-1", "Running")
    assert [(each.name, each.type, dict(each.source)) for each in found.spec.volumes] == [
        ("a", "emptyDir", {"medium": "Memory"}),
        ("b", "persistentVolumeClaim", {"claimName": "data", "readOnly": True}),
        ("c", "emptyDir", {}),
    ]
    side, main, debug = found.all_containers()
    assert side.is_sidecar
    assert side.resources.limits["memory"] == Quantity.parse("1Mi")
    assert (main.volume_mounts[0].sub_path, main.volume_devices[0].device_path) == ("x/y", "/dev/b")
    assert debug.name == "debug"
    assert found.spec.security_context.supplemental_groups == (1, 2)
    assert not found.spec.host_users


def test_a_pod_without_uid_gets_the_one_of_its_name() -> None:
    found = value(pod())
    assert isinstance(found, Pod)
    assert found.uid == default_uid("default", "web")


WRONG: list[tuple[dict[str, object], str]] = [
    ({"metadata__name": "a/b"}, "metadata.name: 'a/b' is no valid name"),
    ({"metadata__name": ".."}, "metadata.name: '..' is no valid name"),
    ({"metadata__name": "a b"}, "metadata.name: 'a b' is no valid name"),
    ({"metadata__name": "a\nb"}, r"metadata.name: 'a\nb' is no valid name"),
    ({"metadata__name": "a~b"}, "metadata.name: 'a~b' is no valid name"),
    ({"metadata__name": "Web"}, "metadata.name: 'Web' is no valid name"),
    ({"metadata__name": 5}, "metadata.name: the number 5 where text is needed"),
    ({"metadata": {}}, "metadata.name: is missing"),
    ({"metadata": None}, "metadata: is missing or no mapping"),
    ({"metadata__namespace": "../x"}, "metadata.namespace: '../x' is no valid name"),
    ({"metadata__uid": "../../etc"}, "metadata.uid: '../../etc' is no valid UID"),
    ({"spec": None}, "spec: is missing"),
    ({"spec__containers": []}, "spec.containers: is missing"),
    ({"spec__containers__0__name": "A"}, "spec.containers[0].name: 'A' is no container name"),
    ({"spec__volumes__0__name": "a/b"}, "spec.volumes[0].name: 'a/b' is no volume name"),
    ({"spec__volumes__0__name": ".."}, "spec.volumes[0].name: '..' is no volume name"),
    ({"spec__volumes__0__name": "a\0"}, r"spec.volumes[0].name: 'a\x00' is no volume name"),
    ({"spec__volumes__0__name": 1}, "spec.volumes[0].name: 1 is no volume name"),
    ({"spec__volumes__0": {"emptyDir": {}}}, "spec.volumes[0].name: is missing"),
    ({"spec__volumes__0": "a"}, "spec.volumes[0]: the text 'a' where a volume is needed"),
    ({"spec__volumes": {}}, "spec.volumes: a mapping where a list is needed"),
    ({"spec__volumes__0__emptyDirr": {}}, "spec.volumes[0].emptyDirr: unknown field; did you mean emptyDir?"),
    ({"spec__volumes__0__zzz": {}}, "spec.volumes[0].zzz: unknown field; install the package that serves it"),
    ({"spec__volumes__0__hostPath": {"path": "/"}}, "spec.volumes[0]: has the sources emptyDir and hostPath"),
    ({"spec__volumes__0__emptyDir": "x"}, "spec.volumes[0].emptyDir: the text 'x' where a mapping is needed"),
    (
        {"spec__volumes": [{"name": "a"}, {"name": "a", "emptyDir": {}}]},
        "spec.volumes[1].name: 'a' is the name of spec.volumes[0] too",
    ),
    (
        {"spec__volumes__0": {"name": "a", "persistentVolumeClaim": {"claim": "x"}}},
        "spec.volumes[0].persistentVolumeClaim.claimName: is missing",
    ),
    ({"spec__volumes__0": {"name": "a", "nfs": {"server": "s"}}}, "spec.volumes[0].nfs.path: is missing"),
    (
        {"spec__volumes__0": {"name": "a", "nfs": {"server": "s", "path": "/", "readonly": True}}},
        "spec.volumes[0].nfs.readonly: unknown field; did you mean readOnly?",
    ),
    (
        {"spec__containers__0__volumeMounts__0__name": "b"},
        "spec.containers[0].volumeMounts[0].name: spec.volumes has no 'b'; there are a",
    ),
    (
        {"spec__containers__0__volumeDevices": [{"name": "b", "devicePath": "/dev/b"}]},
        "spec.containers[0].volumeDevices[0].name: spec.volumes has no 'b'",
    ),
    (
        {"spec__containers__0__volumeMounts__0__readOnly": "yes"},
        "spec.containers[0].volumeMounts[0].readOnly: the text 'yes' where a boolean is needed",
    ),
    (
        {"spec__containers__0__volumeMounts__0__mountpath": "/x"},
        "spec.containers[0].volumeMounts[0].mountpath: unknown field; did you mean mountPath?",
    ),
    (
        {"spec__containers__0__volumeMounts__0__subPath": "../x"},
        "spec.containers[0].volumeMounts[0].subPath: '../x' leads out of the volume",
    ),
    (
        {"spec__containers__0__volumeMounts__0__mountPropagation": "Both"},
        "spec.containers[0].volumeMounts[0].mountPropagation: 'Both' is no choice here",
    ),
    (
        {"spec__containers__0__volumeMounts": [{"name": "a", "mountPath": "/a"}, {"name": "a", "mountPath": "/a"}]},
        "spec.containers[0].volumeMounts[1].mountPath: '/a' is the path of spec.containers[0].volumeMounts[0] too",
    ),
    ({"apiVersion": "v2"}, "apiVersion: 'v2' has no Pod; write apiVersion: v1"),
    ({"kind": "pod"}, "kind: 'pod' is no kind; did you mean Pod?"),
    ({"kind": "Pods"}, "kind: 'Pods' is no kind; did you mean Pod?"),
    ({"kind": None}, "kind: is missing"),
    ({"apiVersion": 1}, "apiVersion: the number 1 where text is needed"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG)
def test_what_is_wrong_with_a_pod_is_named_and_the_pod_refused(changes: Mapping[str, object], message: str) -> None:
    parsed = parse(json.dumps(pod(**changes)).encode(), "web.json", Types())
    assert parsed.items == ()
    assert f"web.json: document 1: {message}" in [
        str(error)[: len(f"web.json: document 1: {message}")] for error in parsed.errors
    ]


def test_one_bad_document_never_stops_the_others() -> None:
    text = b"\n---\n".join(
        [
            dump(pod(metadata__name="one")),
            b"kind: [",
            dump(pod(metadata__name="two", spec__volumes__0__emptyDirr={})),
            b"just text",
            dump(pod(metadata__name="three")),
        ]
    )
    parsed = parse(text, "web.yaml")
    assert [(item.document, item.value.metadata.name) for item in parsed.items] == [(1, "one"), (5, "three")]
    assert [error.document for error in parsed.errors] == [2, 3, 4]
    assert [ref.name for ref in parsed.broken] == ["two"]
    assert not parsed.whole


def test_unknown_fields_are_let_through_where_volumes_are_not() -> None:
    parsed = read(pod(spec__somethingNew=1, spec__containers__0__other={"x": 1}, metadata__managedFields=[]))
    assert parsed.errors == ()


def test_a_field_that_an_installed_type_has_is_known_and_others_are_accepted_unseen() -> None:
    assert errors(pod(spec__volumes__0={"name": "a", "exampleDisk": {"x": 1}}), Types()) == []
    assert errors(pod(spec__volumes__0={"name": "a", "cephfs": {"anything": 1}}), Types()) == []
    assert errors(pod(spec__volumes__0={"name": "a", "exampleDisk": {"x": 1}})) != []


def test_a_type_that_is_found_by_its_driver_needs_no_field_for_the_driver_s_name() -> None:
    csi = {"driver": "overlay.example.com", "volumeAttributes": {"lower": "/a"}}
    assert errors(pod(spec__volumes__0={"name": "a", "csi": csi}), Types()) == []
    (wrong,) = errors(pod(spec__volumes__0={"name": "a", "csi": {**csi, "volumeAttribute": {}}}), Types())
    assert "spec.volumes[0].csi.volumeAttribute: unknown field" in wrong
    nfs = {"server": "s", "path": "/", "driver": "x"}
    (no_driver,) = errors(pod(spec__volumes__0={"name": "a", "nfs": nfs}), Types())
    assert "spec.volumes[0].nfs.driver: unknown field" in no_driver


def test_lists_are_read_item_by_item() -> None:
    typed = copy.deepcopy(pod(metadata__name="typed"))
    del typed["kind"], typed["apiVersion"]
    bad = pod(metadata__name="bad", spec__volumes__0__name="A")
    parsed = read(
        {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [pod(), bad, "text"]},
        {"apiVersion": "v1", "kind": "PodList", "items": [typed]},
    )
    assert [item.value.metadata.name for item in parsed.items] == ["web", "typed"]
    assert [error.field for error in parsed.errors] == ["items[1].spec.volumes[0].name", "items[2]"]


def test_objects_that_volumes_do_not_need_are_a_note() -> None:
    parsed = read(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": {}},
        {"apiVersion": "metal.io/v1", "kind": "Node", "metadata": {"name": "x"}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}},
    )
    assert (parsed.items, parsed.errors) == ((), ())
    assert len(parsed.notes) == 3
    assert "Deployment of apps/v1" in parsed.notes[0]


def test_storage_objects_are_read() -> None:
    volume = value(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "pv.one"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "volumeMode": "Block",
                "mountOptions": ["noatime"],
                "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data", "uid": "u"},
                "storageClassName": "fast",
                "persistentVolumeReclaimPolicy": "Delete",
                "nodeAffinity": {"required": {"nodeSelectorTerms": []}},
                "local": {"path": "/dev/sdb", "fsType": None},
            },
            "status": {"phase": "Bound"},
        }
    )
    assert isinstance(volume, PersistentVolume)
    assert (volume.type, volume.source) == ("local", {"path": "/dev/sdb"})
    assert volume.claim_ref == ClaimRef(namespace="default", name="data", uid="u")
    assert (volume.volume_mode, volume.reclaim_policy, volume.phase) == (VolumeMode.BLOCK, "Delete", "")
    claim = value(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": {"volumeName": "pv.one", "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""},
            "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
        }
    )
    assert isinstance(claim, PersistentVolumeClaim)
    assert (claim.volume_name, claim.storage_class_name, claim.phase) == ("pv.one", "", "")
    assert claim.requests == {"storage": Quantity.parse("1Gi")}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"capacity": {}}, "spec: names no volume type; write exactly one source"),
        ({"nfss": {}}, "spec: names no volume type; nfss: did you mean nfs?"),
        ({"nfs": {}, "local": {}}, "spec: has the sources nfs and local"),
        ({"nfs": {"server": "s", "path": "/", "x": 1}}, "spec.nfs.x: unknown field"),
        ({"local": {}, "volumeMode": "Raw"}, "spec.volumeMode: the text 'Raw' is no choice here"),
    ],
)
def test_what_is_wrong_with_a_persistent_volume_is_named(spec: object, message: str) -> None:
    document = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": spec}
    assert errors(document, Types())[0].startswith(f"web.yaml: document 1: {message}")


def test_configuration_and_cluster_objects_are_read() -> None:
    assert value(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "c"},
            "data": {"a": "b"},
            "binaryData": {"k": "AAE="},
        }
    ) == ConfigMap(metadata=meta("c"), data={"a": "b"}, binary_data={"k": b"\0\1"})
    assert value({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s"}}) == ServiceAccount(
        metadata=meta("s")
    )
    found = value(
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "f"}, "provisioner": "p"}
    )
    assert isinstance(found, StorageClass)
    assert found.provisioner == "p"
    driver = value(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": "csi.example.com"},
            "spec": {
                "attachRequired": False,
                "seLinuxMount": True,
                "tokenRequests": [{"audience": "a"}],
                "serviceAccountTokenInSecrets": True,
                "nodeAllocatableUpdatePeriodSeconds": 10,
            },
        }
    )
    assert isinstance(driver, CSIDriver)
    assert (driver.attach_required, driver.se_linux_mount, driver.token_requests[0].audience) == (False, True, "a")
    assert driver.service_account_token_in_secrets
    assert driver.node_allocatable_update_period_seconds == 10
    node = value(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n", "labels": {"zone": "a"}},
            "status": {"allocatable": {"memory": "1Gi"}, "volumesAttached": [{"name": "x"}], "conditions": []},
        }
    )
    assert isinstance(node, Node)
    assert (node.allocatable, node.volumes_attached) == ({"memory": Quantity.parse("1Gi")}, ())


def meta(name: str) -> ObjectMeta:
    return ObjectMeta(name=name)


def secret(**fields: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, **fields}


def test_a_secret_joins_data_and_string_data_and_shows_neither() -> None:
    document = secret(data={"a": "aHVudGVyMg==", "b": "eA=="}, stringData={"b": "hunter2"}, type="Opaque")
    cast("dict[str, object]", document["metadata"])["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": "hunter2",
        "other": "kept",
    }
    parsed = read(document)
    (item,) = parsed.items
    assert isinstance(item.value, Secret)
    assert item.value.data == {"a": b"hunter2", "b": b"hunter2"}
    assert item.raw == b""
    assert "hunter2" not in repr(parsed)


@pytest.mark.parametrize(
    "fields",
    [
        {"data": {"a": "hunter2!"}},
        {"data": {"a": 77777}},
        {"data": "hunter2!"},
        {"stringData": {"a": 77777}},
        {"stringData": {"a": ["hunter2!"]}},
        {"stringData": "hunter2!"},
    ],
)
def test_what_is_wrong_with_a_secret_never_shows_it(fields: Mapping[str, object]) -> None:
    (error,) = errors(secret(**fields))
    assert "hunter2" not in error
    assert "77777" not in error
    assert "data" in error.lower()


def test_a_file_that_is_too_long_is_refused() -> None:
    parsed = parse(b"x" * (LIMIT + 1), "big.yaml")
    assert "big.yaml: the file has 10485761 bytes, and at most 10485760 (10 MiB) are read" in str(parsed.errors[0])
    assert not parsed.whole


def test_a_file_just_below_the_limit_is_read() -> None:
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "x" * (LIMIT - 200)}}
    assert read(document).errors == ()


def test_text_that_json_cannot_say_is_refused() -> None:
    parsed = parse(json.dumps(pod(metadata__labels={"a": "\ud800"})).encode(), "web.json")
    assert "has text or numbers that JSON cannot say" in str(parsed.errors[0])


def test_an_accepted_pod_is_read_back_whatever_is_installed_now() -> None:
    parsed = read(pod(spec__volumes__0={"name": "a", "exampleDisk": {"x": 1}}), types=Types())
    (item,) = parsed.items
    assert recall(item.raw) == item.value
    stricter = json.dumps(pod(spec__volumes__0={"name": "a", "nfs": {"bogus": 1}})).encode()
    assert isinstance(recall(stricter), Pod)


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"{}", b'{"kind": "Pod"}', json.dumps(pod(metadata__uid="../x")).encode()]
)
def test_a_damaged_record_gives_nothing(raw: bytes) -> None:
    assert recall(raw) is None


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "name",
                    "metadata",
                    "spec",
                    "volumes",
                    "containers",
                    "volumeMounts",
                    "emptyDir",
                    "uid",
                    "kind",
                    "items",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(
    st.sampled_from(
        ["Pod", "PersistentVolume", "PersistentVolumeClaim", "Secret", "ConfigMap", "Node", "List", "PodList"]
    ),
    st.dictionaries(st.sampled_from(["metadata", "spec", "status", "data", "stringData", "items"]), VALUES),
)
def test_any_object_is_read_or_refused_with_its_place(kind: str, fields: Mapping[str, object]) -> None:
    parsed = parse(json.dumps({"apiVersion": "v1", "kind": kind, **fields}).encode(), "any.json", Types())
    assert all(error.file == "any.json" and error.document == 1 and error.problem for error in parsed.errors)
    for item in parsed.items:
        assert isinstance(item, Item)
        if item.raw:
            assert recall(item.raw) == item.value
