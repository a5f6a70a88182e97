"""What csi says of one volume without a host: facets, references, refusals; and kubelet's files, written and read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.csi.in_memory import NAME, csi_driver, inline, of_pod, persistent
from volmgr.plugin import (
    Applies,
    CsiSource,
    Facets,
    ObjectMeta,
    ObjectRef,
    PersistentVolume,
    Reference,
    SecretReference,
    SpecError,
    VolumeSpec,
    attachment_name,
)
from volmgr.testing import FakeHost, Volume
from volmgr_csi.driver.paths import seen_by
from volmgr_csi.node import vol_data
from volmgr_csi.node.identification import of_name
from volmgr_csi.node.layout import ephemeral_handle
from volmgr_csi.node.vol_data import VolData
from volmgr_csi.settings import CsiSettings
from volmgr_csi.volume import Csi

PV = PersistentVolume(metadata=ObjectMeta(name="pv"), type="csi")
LOGIN = SecretReference(name="login", namespace="storage")


def test_an_attachment_and_an_ephemeral_handle_are_named_as_kubelet_does() -> None:
    assert attachment_name("driver", "handle", "node") == (
        "csi-fdef298eb16db6fa42906ef1ff09a93a7f3028f8290cc9d71628ff91c237bfa7"
    )
    assert ephemeral_handle("uid", "volume") == "csi-92e46516884a4883ad0afc376551bf6070771b111d05a35f85671e53699885cc"


def test_a_persistent_volume_is_named_by_driver_and_handle() -> None:
    volume = persistent()
    assert volume.unique_name == f"kubernetes.io/csi/{NAME}^h"
    assert Csi().volume_name(volume.spec) == f"{NAME}^h"
    assert Csi().endpoint(volume.spec) == NAME
    assert Csi().exclusive(volume.spec) == (f"csi {NAME}^h",)


def test_an_inline_volume_is_named_by_its_pod_and_holds_nothing_for_itself() -> None:
    assert inline().unique_name == "kubernetes.io/csi/uid-web-data"
    assert Csi().exclusive(inline().spec) == ()


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ({}, Facets(attach=False, device=True, block=True, expand=True, fs_group=Applies.NOBODY)),
        ({"attach_required": True}, Facets(attach=True, device=True, block=True, expand=True, fs_group=Applies.NOBODY)),
        (
            {"se_linux_mount": True, "requires_republish": True},
            Facets(device=True, block=True, expand=True, selinux=True, remount=True, fs_group=Applies.NOBODY),
        ),
        (
            {"fs_group_policy": "File"},
            Facets(device=True, block=True, expand=True, fs_group=Applies.PLUGIN),
        ),
    ],
)
def test_a_csi_driver_says_what_its_volumes_need(said: dict[str, Any], wanted: Facets) -> None:
    assert persistent(csi_driver(**said)).facets == wanted


def test_without_a_csi_driver_a_volume_has_to_be_attached() -> None:
    wanted = Facets(attach=True, device=True, block=True, expand=True, fs_group=Applies.NOBODY)
    assert replace(persistent(), objects={}).facets == wanted


def test_an_inline_volume_is_neither_attached_nor_staged_nor_grown() -> None:
    every = csi_driver(attach_required=True, se_linux_mount=True, requires_republish=True)
    assert inline(every).facets == Facets(remount=True, fs_group=Applies.NOBODY)


def references(volume: Volume) -> tuple[Reference, ...]:
    return Csi().references(volume.spec, volume.pod)


def test_a_persistent_volume_refers_to_its_driver_its_attachment_and_its_secrets() -> None:
    fields = ("controller_publish", "node_stage", "node_publish", "node_expand", "controller_expand")
    named: dict[str, Any] = {f"{each}_secret_ref": SecretReference(name=each, namespace="storage") for each in fields}
    volume = of_pod(persistent(**named), node_name="node-1", service_account_name="robot")
    assert references(volume) == (
        Reference(ObjectRef("CSIDriver", "", NAME), optional=True),
        Reference(ObjectRef("ServiceAccount", "default", "robot"), optional=True),
        Reference(ObjectRef("VolumeAttachment", "", attachment_name(NAME, "h", "node-1"))),
        Reference(ObjectRef("Secret", "storage", "node_stage")),
        Reference(ObjectRef("Secret", "storage", "node_publish")),
        Reference(ObjectRef("Secret", "storage", "controller_publish"), attaching=True),
        Reference(ObjectRef("Secret", "storage", "node_expand"), optional=True),
    )


def test_an_inline_volume_refers_to_a_secret_of_its_pod_s_namespace() -> None:
    volume = inline(node_publish_secret_ref=SecretReference(name="login"))
    assert references(volume)[2:] == (Reference(ObjectRef("Secret", "default", "login")),)
    assert len(references(inline())) == 2


def spec(*, pv: PersistentVolume | None = None, **source: Any) -> VolumeSpec[CsiSource]:  # noqa: ANN401 - fields
    fields: dict[str, Any] = {"driver": NAME, **source}
    return VolumeSpec(name="data", type="csi", source=CsiSource(**fields), pv=pv)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (spec(driver=""), "csi.driver is empty"),
        (spec(driver="../../etc"), "csi.driver '../../etc' is no driver's name"),
        (spec(driver="a" * 64), "is no driver's name"),
        (spec(driver="a\n"), "is no driver's name"),
        (spec(pv=PV), "csi.volumeHandle is missing"),
        (spec(volume_handle="h"), "csi.volumeHandle belongs to a PersistentVolume"),
        (spec(node_stage_secret_ref=LOGIN), "csi.nodeStageSecretRef belongs to a PersistentVolume"),
        (spec(controller_publish_secret_ref=LOGIN), "csi.controllerPublishSecretRef belongs to a PersistentVolume"),
        (spec(controller_expand_secret_ref=LOGIN), "csi.controllerExpandSecretRef belongs to a PersistentVolume"),
        (spec(node_expand_secret_ref=LOGIN), "csi.nodeExpandSecretRef belongs to a PersistentVolume"),
        (spec(node_publish_secret_ref=LOGIN), "csi.nodePublishSecretRef needs a name and no namespace"),
        (spec(node_publish_secret_ref=SecretReference()), "csi.nodePublishSecretRef needs a name"),
        (
            spec(pv=PV, volume_handle="h", node_stage_secret_ref=SecretReference(name="login")),
            "csi.nodeStageSecretRef needs a name and a namespace",
        ),
        (
            spec(pv=PV, volume_handle="h", controller_expand_secret_ref=SecretReference(namespace="storage")),
            "csi.controllerExpandSecretRef needs a name and a namespace",
        ),
    ],
)
def test_what_no_driver_could_serve_is_refused_with_its_field(wrong: VolumeSpec[CsiSource], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        Csi().check(wrong, None)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "right",
    [
        spec(),
        spec(node_publish_secret_ref=SecretReference(name="login")),
        spec(pv=PV, volume_handle="h/ü ^%", node_stage_secret_ref=LOGIN, node_publish_secret_ref=LOGIN),
        spec(driver="Pure.CSI.k8s.io", pv=PV, volume_handle="h"),
    ],
)
def test_what_a_driver_can_serve_is_not_refused(right: VolumeSpec[CsiSource]) -> None:
    Csi().check(right, None)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
DRIVERS = st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?(\.[a-z0-9]{1,9}){0,3}", fullmatch=True)


@given(driver=DRIVERS, handle=TEXTS, label=st.text(), name=TEXTS, node=TEXTS)
def test_kubelet_s_file_says_what_was_written(driver: str, handle: str, label: str, name: str, node: str) -> None:
    host = FakeHost()
    top = Path("/var/lib/volmgr/plugins")
    host.files.ensure_directory(top, 0o750)
    label = label.encode("utf-8", "ignore").decode()
    data = VolData(driver=driver, handle=handle, lifecycle="Persistent", label=label)
    vol_data.write(host, top, vol_data.pod_texts(data, name, node))
    assert vol_data.read(host, top) == data
    text = host.files.read(top / "vol_data.json") or b""
    assert text.endswith(b"}\n")
    assert text.count(b"\n") == 1
    keys = list(json.loads(text))
    assert keys == sorted(keys)


def test_kubelet_s_file_escapes_what_go_escapes() -> None:
    assert vol_data.go_json({"b": "<&>\u2028ü", "a": '"\\'}) == '{"a":"\\"\\\\","b":"\\u003c\\u0026\\u003e\\u2028ü"}'


@given(driver=DRIVERS, handle=TEXTS)
def test_a_unique_name_says_driver_and_handle(driver: str, handle: str) -> None:
    assert of_name(f"kubernetes.io/csi/{driver}^{handle}") == VolData(driver=driver, handle=handle)


@pytest.mark.parametrize("name", ["kubernetes.io/csi/uid-web-data", "kubernetes.io/csi/^h", "kubernetes.io/csi/d^", ""])
def test_a_name_that_says_no_driver_or_no_handle_says_nothing(name: str) -> None:
    assert of_name(name) is None


@pytest.mark.parametrize(
    ("path", "seen"),
    [
        ("/srv/root/pods/a", "/host/pods/a"),
        ("/srv/root", "/host"),
        ("/srv/root/plugins/x/y", "/elsewhere/x/y"),
        ("/srv/rooted/pods", "/srv/rooted/pods"),
    ],
)
def test_a_driver_is_told_the_path_that_it_sees(path: str, seen: str) -> None:
    paths = {NAME: {"/srv/root": "/host", "/srv/root/plugins": "/elsewhere"}}
    host = FakeHost(settings=(CsiSettings(paths=paths),))
    assert seen_by(NAME, Path(path), host) == seen
    assert seen_by("other.csi.test", Path(path), host) == path
