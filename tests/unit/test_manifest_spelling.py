"""Fields that are let through and look misspelt are noted; what Kubernetes has is not."""

import json

import pytest

from volmgr.manifest import ERRORS_NAMED, parse

CONTAINER: dict[str, object] = {"name": "c", "image": "x", "volumeMounts": None, "tty": True}
SPEC: dict[str, object] = {"containers": [CONTAINER]}


def notes(kind: str, **fields: object) -> list[str]:
    """Give the notes about one object, which is accepted."""
    document = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}, **fields}
    parsed = parse(json.dumps(document).encode(), "f")
    assert parsed.errors == ()
    assert len(parsed.items) == 1
    return [note.removeprefix("f: document 1: ") for note in parsed.notes]


def pv(**spec: object) -> list[str]:
    return notes("PersistentVolume", spec={"hostPath": {"path": "/x"}, "capacity": {"storage": "1Gi"}, **spec})


@pytest.mark.parametrize(
    ("spec", "field", "meant"),
    [
        ({"securityContext": {"fsgroup": 1}}, "spec.securityContext.fsgroup", "fsGroup"),
        ({"containers": [{**CONTAINER, "volumemounts": None}]}, "spec.containers[0].volumemounts", "volumeMounts"),
        ({"nodeNmae": "a"}, "spec.nodeNmae", "nodeName"),
    ],
)
def test_a_misspelt_field_of_a_pod_is_noted_with_what_was_meant(
    spec: dict[str, object], field: str, meant: str
) -> None:
    assert notes("Pod", spec={**SPEC, **spec}) == [f"{field}: unknown field, which nobody reads; did you mean {meant}?"]


def test_fields_of_a_pod_that_are_like_nothing_known_are_let_through() -> None:
    assert notes("Pod", spec={**SPEC, "frobnicate": 1, "hostIPC": True, "hostPID": True}, status={"x": 1}) == []


def test_unknown_fields_of_small_kinds_are_noted_with_what_is_known() -> None:
    assert notes("ConfigMap", dta={"a": "b"}) == ["dta: unknown field, which nobody reads; did you mean data?"]
    (note,) = notes("Secret", password="hunter2")
    assert note.startswith("password: unknown field, which nobody reads; known here: apiVersion, data, immutable, kind")
    assert "hunter2" not in note
    (note,) = notes("PersistentVolumeClaim", spec={"accessModes": [], "resources": {"storage": "1Gi"}})
    assert note == "spec.resources.storage: unknown field, which nobody reads; known here: claims, limits, requests"


def test_a_class_of_a_volume_under_another_name_is_noted() -> None:
    assert pv(storageClass="x") == [
        "spec.storageClass: unknown field, which nobody reads; did you mean storageClassName?"
    ]
    assert pv(storageClassName="x", nodeAffinity={}) == []


@pytest.mark.parametrize(
    ("mode", "remedy"),
    [("RWO", "write ReadWriteOnce"), ("rwx", "write ReadWriteMany"), ("all", "there are Read")],
)
def test_an_access_mode_that_there_is_not_is_noted(mode: str, remedy: str) -> None:
    (note,) = pv(accessModes=[mode, "ReadWriteMany"])
    assert note.startswith(f"spec.accessModes: {mode!r} is no access mode; {remedy}")


def test_a_file_of_garbage_has_a_bounded_number_of_notes() -> None:
    assert len(notes("ConfigMap", **{f"x{number}": 1 for number in range(ERRORS_NAMED * 2)})) == ERRORS_NAMED


def test_no_field_of_a_secret_that_is_data_is_looked_at() -> None:
    assert notes("Secret", stringData={"dta": "x", "Data": "y"}, type="Opaque") == []
