"""`volmgr check` finds what only a mount would refuse, and says where it is written."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from volmgr.cli.app import cli

FIRST = "{apiVersion: v1, kind: ConfigMap, metadata: {name: first}}"


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


def test_a_class_of_an_in_tree_type_that_its_driver_could_not_read_is_named_with_its_field(tmp_path: Path) -> None:
    document = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": "kubernetes.io/gce-pd",
        "parameters": {"zone": "us-central1-a"},
    }
    file = tmp_path / "class.json"
    file.write_text(json.dumps(document))
    assert run("check", str(file)).exit_code == 0
    topologies = [{"matchLabelExpressions": [{"key": "topology.gke.io/zone", "values": ["us-central1-a"]}]}]
    file.write_text(json.dumps({**document, "allowedTopologies": topologies}))
    assert "document 1: allowedTopologies: stands beside the parameter zone" in run("check", str(file)).stderr


def manifest(tmp_path: Path, *volumes: dict[str, object], container: dict[str, object] | None = None) -> str:
    names = [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes]
    one = {"name": "c", "volumeMounts": names, **(container or {})}
    spec = {"containers": [one], "volumes": list(volumes)}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
    (tmp_path / "web.yaml").write_text(f"{FIRST}\n---\n{json.dumps(document)}")
    return str(tmp_path / "web.yaml")


FILES = {"items": [{"path": "f", "fieldRef": {"fieldPath": "status.podIP"}}]}
RESOURCES = {"items": [{"path": "f", "resourceFieldRef": {"resource": "limits.gpu", "containerName": "c"}}]}
TWO = {"sources": [{"secret": {"name": "a"}, "configMap": {"name": "b"}}]}
ABOVE = {"name": "a", "items": [{"key": "k", "path": "../p"}]}


@pytest.mark.parametrize(
    ("field", "source", "problem"),
    [
        ("emptyDir", {"medium": "memory"}, 'unknown storage medium "memory"'),
        ("emptyDir", {"medium": "HugePages"}, "no resource request for huge pages"),
        ("emptyDir", {"sizeLimit": "-1Gi"}, "sizeLimit -1Gi is negative"),
        ("hostPath", {"path": "/srv", "type": "Folder"}, "Folder is an invalid volume type"),
        ("hostPath", {"path": "/srv/../etc"}, "path must not contain '..'"),
        ("secret", {"secretName": "a", "defaultMode": 644 * 2}, "1288 is no file mode"),
        ("secret", {}, "secret.secretName is missing"),
        ("configMap", ABOVE, "it must not have .. in it"),
        ("downwardAPI", FILES, "status.podIP"),
        ("downwardAPI", RESOURCES, "limits.gpu"),
        ("image", {"reference": "a", "pullPolicy": "always"}, "'always' is no pullPolicy"),
        ("image", {"reference": "A!"}, "no image reference"),
        ("awsElasticBlockStore", {"volumeID": "aws://us-east-1a/disk"}, "names no EBS volume; write vol-"),
        ("azureDisk", {"diskName": "d", "diskURI": "/d", "kind": "Shared"}, "is not served by disk.csi.azure.com"),
        ("azureDisk", {"diskName": "d", "diskURI": ".."}, "no directory can be named '..'"),
        ("gitRepo", {"repository": "git@example.com:x"}, "write an address that begins with https://"),
        ("gitRepo", {"repository": "https://example.com/x", "directory": "../x"}, "leads out of the volume"),
        ("gitRepo", {"repository": "https://example.com/x", "revision": "-b"}, "begins with a dash"),
        ("projected", TWO, "sources[0]: names 2 of secret, configMap"),
        (
            "projected",
            {"sources": [{"podCertificate": {"signerName": "x.io/y", "keyType": "RSA1", "credentialBundlePath": "b"}}]},
            "podCertificate.keyType is 'RSA1'",
        ),
    ],
)
def test_a_value_that_no_mount_could_take_is_named_with_its_field(
    tmp_path: Path, field: str, source: dict[str, object], problem: str
) -> None:
    path = manifest(tmp_path, {"name": "other", "emptyDir": {}}, {"name": "v", field: source})
    result = run("check", path)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"{path}: document 2: spec.volumes[1].{field}: ")
    assert problem in result.stderr
    (shown,) = json.loads(run("-o", "json", "check", path).stdout)["files"]
    assert [error["field"] for error in shown["errors"]] == [f"spec.volumes[1].{field}"]


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ({"local": {"path": "/srv/.."}}, "spec.local: invalid local.path '/srv/..'"),
        ({"hostPath": {"path": "srv"}}, "spec.hostPath: invalid HostPath 'srv'"),
        ({"hostPath": {"path": "/srv"}, "mountOptions": ["ro"]}, "mount options are not supported"),
        ({"nfs": {"server": "a", "path": "/srv"}, "mountOptions": ["a\0b"]}, "a mount option has a NUL in it"),
    ],
)
def test_a_persistent_volume_is_looked_at_without_a_pod(
    tmp_path: Path, source: dict[str, object], problem: str
) -> None:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **source}
    document = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-1"}, "spec": spec}
    (tmp_path / "pv.json").write_text(json.dumps(document))
    result = run("check", str(tmp_path / "pv.json"))
    assert (result.exit_code, problem in result.stderr) == (1, True), result.stderr


@pytest.mark.parametrize(
    ("env", "problem"),
    [
        ([], "container c has no variable WHO"),
        ([{"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}], "status.podIP is not known here"),
        ([{"name": "WHO", "valueFrom": {"resourceFieldRef": {"resource": "limits.gpu"}}}], "'limits.gpu'"),
    ],
)
def test_an_expression_without_a_value_is_named(tmp_path: Path, env: list[dict[str, object]], problem: str) -> None:
    mount = {"name": "v", "mountPath": "/v", "subPathExpr": "$(WHO)"}
    path = manifest(tmp_path, {"name": "v", "emptyDir": {}}, container={"env": env, "volumeMounts": [mount]})
    result = run("check", path)
    assert result.exit_code == 1
    assert "document 2: spec.containers[0].volumeMounts[0].subPathExpr: " in result.stderr
    assert problem in result.stderr


@pytest.mark.parametrize(
    "container",
    [
        {"env": [{"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
        {"env": [{"name": "WHO", "valueFrom": {"configMapKeyRef": {"name": "later", "key": "k"}}}]},
        {"envFrom": [{"configMapRef": {"name": "later"}}]},
        {"env": [{"name": "WHO", "value": "$(UNKNOWN)x"}]},
    ],
)
def test_what_objects_may_say_yet_is_no_error(tmp_path: Path, container: dict[str, object]) -> None:
    mount = {"name": "v", "mountPath": "/v", "subPathExpr": "$(WHO)"}
    path = manifest(tmp_path, {"name": "v", "emptyDir": {}}, container={**container, "volumeMounts": [mount]})
    result = run("check", path)
    assert (result.exit_code, result.stderr) == (0, "")


def test_a_reclaim_policy_that_there_is_not_is_refused_with_those_that_are(tmp_path: Path) -> None:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/srv"}}
    metadata = {"name": "pv-1"}
    for policy, code in (("Retain", 0), ("Delete", 0), ("retain", 1)):
        document = {"kind": "PersistentVolume", "spec": {**spec, "persistentVolumeReclaimPolicy": policy}}
        path = tmp_path / "pv.json"
        path.write_text(json.dumps({"apiVersion": "v1", "metadata": metadata, **document}))
        result = run("check", str(path))
        assert result.exit_code == code
    problem = "spec.persistentVolumeReclaimPolicy: 'retain' is no choice here; write one of Retain, Delete, Recycle"
    assert problem in result.stderr
