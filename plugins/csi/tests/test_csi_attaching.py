"""Attaching by the driver's own controller service: which calls are made, and what is on disk before and after each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from plugins.csi.tests.controllers import Control, controlled

from tests.csi.fault_driver.profile import ATTACH, CONTROLLER, READ_ONLY
from tests.csi.fault_driver.rules import Rule
from volmgr.errors import OperationError, TransientError, UncertainError
from volmgr.model.meta import ObjectMeta
from volmgr.model.objects import Secret, VolumeAttachment
from volmgr.plugin import (
    Attach,
    CsiSource,
    Detach,
    ObjectRef,
    SecretReference,
    VolumeMode,
    VolumeSpec,
    attachment_name,
)
from volmgr.testing import Fault, FaultHost, Killed, When
from volmgr_csi.controller.attaching import (
    ATTACHED,
    ATTACHING,
    DETACHING,
    Attachment,
    Attachments,
    attach,
    detach,
    publish_context,
)

DRIVER = "fault.csi.test"
HANDLE = "vol-1"
NODE = "n1"
NAME = attachment_name(DRIVER, HANDLE, NODE)
VOLUME = f"kubernetes.io/csi/{DRIVER}^{HANDLE}"
KEY = ObjectRef("Secret", "vault", "key")
SECRET = Secret(metadata=ObjectMeta(name="key", namespace="vault"), data={"password": b"very secret"})


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Control]:
    with controlled(tmp_path, controller=(*CONTROLLER, ATTACH)) as control:
        control.fault.add_volume(HANDLE)
        yield control


def wanted(**source: object) -> Attach[CsiSource]:
    spec = VolumeSpec(
        name="pv-1",
        type="csi",
        source=replace(CsiSource(driver=DRIVER, volume_handle=HANDLE), **source),  # type: ignore[arg-type]
        access_modes=("ReadWriteOnce",),
    )
    return Attach(spec=spec, volume=VOLUME, node_name=NODE)


def unwanted(secret: Secret | None = None) -> Detach:
    return Detach(volume=VOLUME, node_name=NODE, objects={} if secret is None else {KEY: secret})


def record(control: Control) -> Attachment | None:
    return Attachments(control.host).find(NAME)


def run_attach(control: Control, request: Attach[CsiSource] | None = None) -> None:
    attach(request or wanted(), control.host, control.known.making(DRIVER))


def there_and_back(control: Control, host: FaultHost) -> None:
    attach(wanted(), host, control.known.making(DRIVER))
    detach(unwanted(), host)


def attached_to(control: Control) -> list[str]:
    return sorted(control.fault.volumes.get(HANDLE).nodes)


def test_what_is_attached_is_recorded_with_what_the_driver_wants_to_be_told_and_twice_is_once(control: Control) -> None:
    for _ in range(2):
        run_attach(control)
        found = record(control)
        assert found is not None
        assert (found.state, found.node_id, found.publish_context) == (ATTACHED, "machine-1", {"lun": HANDLE})
    assert publish_context(DRIVER, HANDLE, NODE, {}, control.host) == {"lun": HANDLE}
    assert attached_to(control) == ["machine-1"]
    for _ in range(2):
        detach(unwanted(), control.host)
        assert record(control) is None
        assert attached_to(control) == []
    assert publish_context(DRIVER, HANDLE, NODE, {}, control.host) == {}


def test_a_driver_that_attaches_nothing_is_asked_nothing(tmp_path: Path) -> None:
    with controlled(tmp_path) as control:
        run_attach(control)
        detach(unwanted(), control.host)
        assert control.methods() == []
        assert record(control) is None


@pytest.mark.parametrize("code", ["INTERNAL", "NOT_FOUND", "FAILED_PRECONDITION"])
def test_a_final_error_leaves_nothing(control: Control, code: str) -> None:
    control.fault.script(Rule(method="ControllerPublishVolume", code=code))
    with pytest.raises(OperationError, match=f"ControllerPublishVolume of csi driver {DRIVER} failed: {code}"):
        run_attach(control)
    assert record(control) is None


def test_a_refused_attach_says_what_the_driver_has_against_the_volume(control: Control) -> None:
    control.fault.script(Rule(method="ControllerPublishVolume", code="INVALID_ARGUMENT", message="no"))
    block = replace(wanted().spec, mode=VolumeMode.BLOCK)
    with pytest.raises(
        OperationError, match=r"asked by ValidateVolumeCapabilities, the driver refuses .*other volume mode"
    ):
        run_attach(control, replace(wanted(), spec=block))
    control.fault.clear()
    for answer in (
        Rule(method="ValidateVolumeCapabilities"),
        Rule(method="ValidateVolumeCapabilities", code="INTERNAL"),
    ):
        control.fault.script(Rule(method="ControllerPublishVolume", code="INVALID_ARGUMENT", message="no"), answer)
        with pytest.raises(OperationError, match=r"INVALID_ARGUMENT: no$"):
            run_attach(control)


@pytest.mark.parametrize("code", ["CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED"])
def test_after_any_other_error_it_may_be_attached_and_is_detached(control: Control, code: str) -> None:
    control.fault.script(Rule(method="ControllerPublishVolume", code=code, skip_work=False))
    with pytest.raises(UncertainError):
        run_attach(control)
    found = record(control)
    assert found is not None
    assert found.state == ATTACHING
    detach(unwanted(), control.host)
    assert attached_to(control) == []


def test_a_final_error_of_a_repeated_attach_forgets_nothing(control: Control) -> None:
    run_attach(control)
    control.fault.script(Rule(method="ControllerPublishVolume", code="INTERNAL"))
    with pytest.raises(OperationError):
        run_attach(control)
    found = record(control)
    assert found is not None
    assert found.state == ATTACHED


def test_a_detach_that_fails_is_remembered_until_it_is_done(control: Control) -> None:
    run_attach(control)
    control.fault.script(Rule(method="ControllerUnpublishVolume", code="INTERNAL"))
    with pytest.raises(OperationError):
        detach(unwanted(), control.host)
    found = record(control)
    assert found is not None
    assert (found.state, found.publish_context) == (DETACHING, {"lun": HANDLE})
    control.fault.script(Rule(method="ControllerUnpublishVolume", code="NOT_FOUND"))
    detach(unwanted(), control.host)
    assert record(control) is None, "what the driver does not know is detached"


def test_a_machine_that_was_another_to_the_driver_is_detached_by_its_old_name(control: Control) -> None:
    Attachments(control.host).put(NAME, Attachment(driver=DRIVER, handle=HANDLE, node_id="machine-0", state=ATTACHED))
    run_attach(control)
    asked = [(call.method, call.request["nodeId"]) for call in control.fault.calls()]
    assert asked == [("ControllerUnpublishVolume", "machine-0"), ("ControllerPublishVolume", "machine-1")]


def test_the_secret_is_waited_for_told_and_not_recorded(control: Control) -> None:
    request = wanted(controller_publish_secret_ref=SecretReference(name="key", namespace="vault"))
    with pytest.raises(TransientError, match="Secret vault/key, which is missing") as raised:
        run_attach(control, request)
    assert raised.value.waits_for == str(KEY)
    assert record(control) is None
    run_attach(control, replace(request, objects={KEY: SECRET}))
    detach(unwanted(SECRET), control.host)
    told = [call.request["secrets"] for call in control.fault.calls()]
    assert told == [{"password": "very secret"}] * 2
    run_attach(control, replace(request, objects={KEY: SECRET}))
    written = control.host.files.read(control.host.paths.state / f"csi/attachments/{NAME}.json")
    assert written is not None
    assert b"very secret" not in written
    detach(unwanted(), control.host)
    assert "secrets" not in control.fault.calls()[-1].request, "gone with what it was for"
    assert attached_to(control) == []


@pytest.mark.parametrize("can", [True, False])
def test_read_only_is_said_to_a_driver_that_can(tmp_path: Path, *, can: bool) -> None:
    with controlled(tmp_path, controller=(*CONTROLLER, ATTACH, *([READ_ONLY] if can else []))) as control:
        control.fault.add_volume(HANDLE)
        run_attach(control, wanted(read_only=True))
        assert control.fault.volumes.get(HANDLE).nodes == {"machine-1": can}


def test_a_damaged_record_is_detached_by_the_volumes_name(control: Control) -> None:
    run_attach(control)
    control.host.files.write(control.host.paths.state / f"csi/attachments/{NAME}.json", b"{half")
    control.known.drop(DRIVER)
    with pytest.raises(TransientError):
        detach(unwanted(), control.host)
    control.register()
    detach(unwanted(), control.host)
    assert attached_to(control) == []
    assert not Attachments(control.host).is_damaged(NAME)


def test_a_driver_that_is_gone_keeps_what_it_has_attached_and_nothing_else(control: Control) -> None:
    control.known.drop(DRIVER)
    detach(unwanted(), control.host)
    control.register()
    run_attach(control)
    control.known.drop(DRIVER)
    with pytest.raises(TransientError, match="not found in the list of registered CSI drivers"):
        detach(unwanted(), control.host)
    assert record(control) is not None


def test_a_clusters_attachment_says_what_the_driver_wants_to_be_told(control: Control) -> None:
    said = VolumeAttachment(metadata=ObjectMeta(name=NAME, namespace=""), attachment_metadata={"lun": "7"})
    ref = ObjectRef("VolumeAttachment", "", NAME)
    assert publish_context(DRIVER, HANDLE, NODE, {ref: said}, control.host) == {"lun": "7"}


@pytest.mark.parametrize("when", list(When))
def test_killed_at_any_call_of_the_host_it_is_detached_all_the_same(control: Control, when: When) -> None:
    counted = FaultHost(control.host)
    there_and_back(control, counted)
    for at in range(1, len(counted.trace) + 1):
        dying = FaultHost(control.host, [Fault.kill(at, when)])
        with pytest.raises(Killed):
            there_and_back(control, dying)
        assert bool(attached_to(control)) <= (record(control) is not None), f"killed at {at} {when}"
        detach(unwanted(), control.host)
        assert attached_to(control) == [], f"killed at {at} {when}"
        assert record(control) is None
