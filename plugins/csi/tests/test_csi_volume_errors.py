"""Every error code of every call of the node service: what it means, and what is on disk then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.csi.fault_driver.rules import Rule
from tests.csi.in_memory import (
    ALL,
    IMAGE_FILE,
    NODE,
    PLUGIN,
    POD_VOLUME,
    STAGED,
    Site,
    csi_driver,
    inline,
    persistent,
    running_in_memory,
)
from volmgr.plugin import (
    BusyError,
    DeviceLostError,
    Expanded,
    OperationError,
    PluginError,
    SpecError,
    TransientError,
    UncertainError,
    VolmgrError,
    VolumeMode,
)
from volmgr.testing import Fault, FaultHost, Volume

CODES = [code.name for code in grpc.StatusCode if code is not grpc.StatusCode.OK]
NOT_FINAL = {"CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED"}
FINAL = [code for code in CODES if code not in NOT_FINAL]
UNCERTAIN = sorted(NOT_FINAL)
JSON = "vol_data.json"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with running_in_memory(tmp_path) as running:
        running.host.files.write(IMAGE_FILE, bytes(1 << 20))
        yield running


def stage(volume: Volume, site: Site, **changes: Any) -> object:  # noqa: ANN401 - fields
    return volume.mount_device(site.host, node_name=NODE, **changes)


def publish(volume: Volume, site: Site, **changes: Any) -> object:  # noqa: ANN401 - fields
    return volume.mount(site.host, node_name=NODE, **changes)


def failed(action: Callable[[], object]) -> type[VolmgrError]:
    """Give the class of the error that an action ends with."""
    with pytest.raises(VolmgrError) as caught:
        action()
    return type(caught.value)


def _outcome(volume: Volume, code: str) -> type[VolmgrError]:
    """Give the error by which publishing a volume ends with a code: of a staged one, the staging may be in doubt."""
    if code in NOT_FINAL:
        return UncertainError
    in_doubt = volume.has_device and code in {"FAILED_PRECONDITION", "NOT_FOUND"}
    return DeviceLostError if in_doubt else OperationError


def block() -> Volume:
    return persistent(mode=VolumeMode.BLOCK)


@pytest.mark.parametrize("volume", [persistent, block], ids=["file system", "block"])
@pytest.mark.parametrize("code", FINAL)
def test_a_staging_that_failed_for_good_leaves_nothing(site: Site, volume: Callable[[], Volume], code: str) -> None:
    site.answer("NodeStageVolume", code)
    assert failed(lambda: stage(volume(), site)) is OperationError
    assert site.left() == []


@pytest.mark.parametrize("works", [False, True], ids=["undone", "done"])
@pytest.mark.parametrize("code", UNCERTAIN)
def test_a_staging_that_may_have_happened_keeps_its_file_until_it_is_undone(site: Site, code: str, works: bool) -> None:
    site.answer("NodeStageVolume", code, works=works)
    volume = persistent()
    assert failed(lambda: stage(volume, site)) is UncertainError
    assert list(site.files()) == [f"{STAGED}/{JSON}"]
    assert f"{STAGED}/globalmount" in site.tree()
    volume.unmount_device(site.host)
    assert site.named() == ["NodeStageVolume", "NodeUnstageVolume"]
    assert site.left() == []


@pytest.mark.parametrize("code", UNCERTAIN)
def test_a_staging_of_a_block_volume_that_may_have_happened_keeps_its_file(site: Site, code: str) -> None:
    site.answer("NodeStageVolume", code)
    assert failed(lambda: stage(block(), site)) is UncertainError
    assert list(site.files()) == [f"{PLUGIN}/volumeDevices/data/data/{JSON}"]
    block().unmount_device(site.host)
    assert site.left() == []


def test_a_staging_that_failed_for_good_after_it_was_uncertain_leaves_nothing(site: Site) -> None:
    site.answer("NodeStageVolume", "UNAVAILABLE")
    site.answer("NodeStageVolume", "INTERNAL")
    assert failed(lambda: stage(persistent(), site)) is UncertainError
    assert failed(lambda: stage(persistent(), site)) is OperationError
    assert site.left() == []


def test_a_staging_that_fails_for_good_while_something_is_mounted_is_uncertain(site: Site) -> None:
    site.answer("NodeStageVolume", "INTERNAL", works=True)
    assert failed(lambda: stage(persistent(), site)) is UncertainError
    assert list(site.files()) == [f"{STAGED}/{JSON}"]


@pytest.mark.parametrize("code", CODES)
def test_a_staged_volume_is_not_lost_by_a_later_failure(site: Site, code: str) -> None:
    volume = persistent()
    stage(volume, site)
    site.host.mounts.unmount(Path(STAGED, "globalmount"))  # somebody did
    site.answer("NodeStageVolume", code)
    failed(lambda: stage(volume, site))
    assert list(site.files()) == [f"{STAGED}/{JSON}"]
    volume.unmount_device(site.host)
    assert site.named() == ["NodeStageVolume", "NodeStageVolume", "NodeUnstageVolume"]


@pytest.mark.parametrize("code", CODES)
def test_what_kubelet_staged_is_not_lost_by_a_failure(site: Site, code: str) -> None:
    volume = persistent()
    stage(volume, site)
    site.forget_records()
    site.answer("NodeStageVolume", code)
    failed(lambda: stage(volume, site))
    assert list(site.files()) == [f"{STAGED}/{JSON}"]


@pytest.mark.parametrize("volume", [persistent, inline], ids=["persistent", "inline"])
@pytest.mark.parametrize("code", FINAL)
def test_a_publishing_that_failed_for_good_leaves_nothing(site: Site, volume: Callable[[], Volume], code: str) -> None:
    stage(volume(), site)
    before = site.left()
    site.answer("NodePublishVolume", code)
    assert failed(lambda: publish(volume(), site)) is _outcome(volume(), code)
    assert site.left() == before


@pytest.mark.parametrize("works", [False, True], ids=["undone", "done"])
@pytest.mark.parametrize("volume", [persistent, inline], ids=["persistent", "inline"])
@pytest.mark.parametrize("code", UNCERTAIN)
def test_a_publishing_that_may_have_happened_keeps_its_file_until_it_is_undone(
    site: Site, volume: Callable[[], Volume], code: str, works: bool
) -> None:
    stage(volume(), site)
    before = site.left()
    site.answer("NodePublishVolume", code, works=works)
    assert failed(lambda: publish(volume(), site)) is UncertainError
    assert f"{POD_VOLUME}/{JSON}" in site.files()
    volume().unmount(site.host)
    assert site.named()[-2:] == ["NodePublishVolume", "NodeUnpublishVolume"]
    assert site.left() == before


@pytest.mark.parametrize("code", FINAL)
def test_of_a_driver_that_stages_nothing_no_staging_is_in_doubt(site: Site, code: str) -> None:
    site.register(replace(ALL, stage=False))
    stage(persistent(), site)
    site.answer("NodePublishVolume", code)
    assert failed(lambda: publish(persistent(), site)) is OperationError


@pytest.mark.parametrize("code", CODES)
def test_a_publishing_of_a_block_volume_keeps_what_was_staged(site: Site, code: str) -> None:
    stage(block(), site)
    before = site.left()
    site.answer("NodePublishVolume", code)
    assert failed(lambda: publish(block(), site)) is _outcome(block(), code)
    block().unmount(site.host)
    assert site.left() == before


@pytest.mark.parametrize("code", CODES)
def test_a_republishing_that_fails_keeps_mount_and_file(site: Site, code: str) -> None:
    volume = persistent(csi_driver(requires_republish=True))
    stage(volume, site)
    publish(volume, site)
    before = site.tree()
    site.answer("NodePublishVolume", code)
    failed(lambda: publish(volume, site, remount=True))
    assert site.tree() == before


@pytest.mark.parametrize("known", [{"reconstructed": True}, {}], ids=["reconstructed", "kubelet's"])
@pytest.mark.parametrize("code", CODES)
def test_a_publishing_of_what_was_there_before_keeps_the_file(site: Site, code: str, known: dict[str, bool]) -> None:
    volume = persistent()
    stage(volume, site)
    publish(volume, site)
    site.forget_records()
    site.answer("NodePublishVolume", code)
    failed(lambda: publish(volume, site, **known))
    assert f"{POD_VOLUME}/{JSON}" in site.files()


@pytest.mark.parametrize("code", [code for code in CODES if code != "NOT_FOUND"])
@pytest.mark.parametrize("method", ["NodeUnpublishVolume", "NodeUnstageVolume"])
def test_an_undoing_that_failed_keeps_everything_and_is_repeated(site: Site, method: str, code: str) -> None:
    volume = persistent()
    stage(volume, site)
    publish(volume, site)
    if method == "NodeUnstageVolume":
        volume.unmount(site.host)
    before = site.tree()
    site.answer(method, code)
    undo = volume.unmount if method == "NodeUnpublishVolume" else volume.unmount_device
    assert failed(lambda: undo(site.host)) is (UncertainError if code in NOT_FINAL else OperationError)
    assert site.tree() == before
    undo(site.host)
    assert len(site.calls(method)) == 2


@pytest.mark.parametrize("is_mounted", [False, True], ids=["and is gone", "and is still mounted"])
def test_what_a_driver_does_not_know_any_more_is_undone(site: Site, is_mounted: bool) -> None:
    volume = persistent()
    stage(volume, site)
    publish(volume, site)
    site.answer("NodeUnpublishVolume", "NOT_FOUND", works=not is_mounted)
    site.answer("NodeUnstageVolume", "NOT_FOUND", works=not is_mounted)
    volume.unmount(site.host)
    volume.unmount_device(site.host)
    assert site.left() == []
    assert site.named()[2:] == ["NodeUnpublishVolume", "NodeUnstageVolume"]


def test_a_driver_that_says_it_undid_what_is_still_mounted_is_asked_again(site: Site) -> None:
    volume = persistent()
    stage(volume, site)
    publish(volume, site)
    site.script.add((Rule(method="NodeUnpublishVolume", skip_work=True),))
    with pytest.raises(OperationError, match="is still mounted"):
        volume.unmount(site.host)
    assert f"{POD_VOLUME}/{JSON}" in site.files()
    volume.unmount(site.host)
    assert POD_VOLUME not in site.tree()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("FAILED_PRECONDITION", BusyError),
        ("INVALID_ARGUMENT", SpecError),
        ("OUT_OF_RANGE", SpecError),
        ("NOT_FOUND", SpecError),
        ("INTERNAL", OperationError),
        ("UNAVAILABLE", UncertainError),
        ("DEADLINE_EXCEEDED", UncertainError),
    ],
)
def test_growing_says_who_must_act(site: Site, code: str, error: type[VolmgrError]) -> None:
    volume = persistent()
    stage(volume, site)
    publish(volume, site)
    before = site.tree()
    site.answer("NodeExpandVolume", code)
    assert failed(lambda: volume.expand(site.host, new_size=1 << 20)) is error
    assert site.tree() == before


def test_growing_tells_the_driver_where_the_volume_is(site: Site) -> None:
    volume = persistent(fs_type="ext4")
    stage(volume, site)
    publish(volume, site)
    answer = volume.expand(site.host, new_size=1 << 20, target=Path(POD_VOLUME, "mount"))
    assert answer == Expanded(size=1 << 20)
    (request,) = site.requests("NodeExpandVolume")
    assert request == {
        "volumeId": "h",
        "volumePath": f"{POD_VOLUME}/mount",
        "stagingTargetPath": f"{STAGED}/globalmount",
        "capacityRange": {"requiredBytes": str(1 << 20)},
        "volumeCapability": {"mount": {"fsType": "ext4"}, "accessMode": {"mode": "SINGLE_NODE_WRITER"}},
    }


def test_growing_a_volume_that_no_pod_has_tells_the_driver_where_it_is_staged(site: Site) -> None:
    volume = persistent()
    stage(volume, site)
    volume.expand(site.host, new_size=1 << 20, target=None)
    assert site.requests("NodeExpandVolume")[0]["volumePath"] == f"{STAGED}/globalmount"


def test_growing_a_block_volume_tells_the_driver_its_device(site: Site) -> None:
    block().expand(site.host, new_size=1 << 20, device_path="/dev/loop7")
    (request,) = site.requests("NodeExpandVolume")
    assert request["volumePath"] == "/dev/loop7"
    assert request["stagingTargetPath"] == f"{PLUGIN}/volumeDevices/staging/data"
    assert request["volumeCapability"] == {"block": {}, "accessMode": {"mode": "SINGLE_NODE_WRITER"}}


def test_a_driver_that_cannot_grow_on_the_node_is_not_asked(site: Site) -> None:
    site.register(replace(ALL, expand=False))
    assert failed(lambda: persistent().expand(site.host, new_size=1 << 20)) is PluginError
    assert persistent().expand(site.host, new_size=1 << 20, known_size=1 << 20) == Expanded(size=1 << 20)
    site.controller = frozenset({"EXPAND_VOLUME"})
    site.register(replace(ALL, expand=False))
    assert persistent().expand(site.host, new_size=1 << 20) == Expanded(size=1 << 20)
    assert site.calls() == []


def test_a_volume_is_measured_where_it_is_published(site: Site) -> None:
    volume = persistent()
    stage(volume, site)
    publish(volume, site)
    site.script.add((stats_of({"unit": "BYTES", "total": "100", "used": "30", "available": "70"}),))
    measured = [volume.measure(site.host, path=Path(path)) for path in (POD_VOLUME, f"{POD_VOLUME}/mount")]
    assert (measured[0].capacity, measured[0].used, measured[0].available) == (100, 30, 70)
    assert site.requests("NodeGetVolumeStats") == [{"volumeId": "h", "volumePath": f"{POD_VOLUME}/mount"}] * 2


def stats_of(usage: dict[str, str]) -> Rule:
    return Rule(method="NodeGetVolumeStats", skip_work=True, answer={"usage": [usage]})


def test_a_driver_without_statistics_says_so(site: Site) -> None:
    volume = persistent()
    stage(volume, site)
    publish(volume, site)
    site.script.add((stats_of({"unit": "INODES", "total": "100"}),))
    with pytest.raises(OperationError, match="without bytes"):
        volume.measure(site.host)
    site.answer("NodeGetVolumeStats", "UNAVAILABLE")
    assert failed(lambda: volume.measure(site.host)) is OperationError
    site.register(replace(ALL, stats=False))
    with pytest.raises(OperationError, match="GET_VOLUME_STATS"):
        volume.measure(site.host)
    site.known.drop(volume.spec.source.driver)
    assert failed(lambda: volume.measure(site.host)) is TransientError


def test_a_volume_that_cannot_be_given_to_its_group_is_uncertain_and_keeps_its_file(site: Site) -> None:
    volume = persistent(fs_type="ext4")
    stage(volume, site)
    undisturbed = FaultHost(site.host, [])
    volume.mount(undisturbed, fs_group=3000)
    volume.unmount(site.host)
    number = next(index for index, call in enumerate(undisturbed.trace, 1) if str(call).startswith("ownership.apply"))
    refusing = FaultHost(site.host, [Fault(number, OperationError("operation not permitted"))])
    assert failed(lambda: volume.mount(refusing, fs_group=3000)) is UncertainError
    assert f"{POD_VOLUME}/{JSON}" in site.files()
    assert site.host.mounts.is_mount_point(Path(POD_VOLUME, "mount"))
    volume.unmount(site.host)
    assert POD_VOLUME not in site.tree()
