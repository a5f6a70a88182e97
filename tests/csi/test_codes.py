"""Whatever a driver answers, however late, and wherever it crashes: volumes are made, and gone, in the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import grpc
import pytest

from tests.csi import objects
from tests.csi.fault_driver.calls import Call
from tests.csi.fault_driver.rules import Rule
from tests.csi.fault_driver.running import ThreadDriver, running_fault_process
from tests.csi.node import QUICK, CsiNode, registry
from tests.root.acceptance.outside import pod

MAKING = ("NodeStageVolume", "NodePublishVolume")
UNMAKING = ("NodeUnpublishVolume", "NodeUnstageVolume")
CODES = [code.name for code in grpc.StatusCode if code is not grpc.StatusCode.OK]


def overlaps(calls: Iterable[Call]) -> list[tuple[Call, Call]]:
    """Give each pair of calls for one volume of which the later one started before the earlier one had ended."""
    found: list[tuple[Call, Call]] = []
    last: dict[str, Call] = {}
    for call in sorted(calls, key=lambda call: call.started):
        volume = str(call.request.get("volumeId", ""))
        if not volume:
            continue
        if volume in last and call.started < last[volume].ended:
            found.append((last[volume], call))
        last[volume] = call
    return found


def put_all(node: CsiNode, driver: ThreadDriver, names: Sequence[str]) -> None:
    for name in names:
        driver.add_volume(name)
        node.put(f"{name}.json", *objects.bound(driver.name, name), pod(name, objects.claimed(name)))


def remove_all(node: CsiNode, driver: ThreadDriver, names: Sequence[str]) -> None:
    for name in names:
        node.put(f"{name}.json", *objects.bound(driver.name, name))
    for name in names:
        node.wait(name, "unmounted")


@pytest.mark.parametrize("worked", [False, True], ids=["undone", "done"])
@pytest.mark.parametrize("method", MAKING)
def test_after_each_error_of_a_call_that_makes_something_it_is_called_again(
    node: CsiNode, driver: ThreadDriver, method: str, worked: bool
) -> None:
    names = [code.lower().replace("_", "-") for code in CODES]
    for name, code in zip(names, CODES, strict=True):
        driver.script(Rule(method=method, code=code, skip_work=not worked, match={"volume_id": name}))
    put_all(node, driver, names)
    for name in names:
        node.wait(name)
        assert str(node.target(name, f"pv-{name}")) in node.mounts()
        codes = [call.code for call in driver.calls(method) if call.request["volumeId"] == name]
        assert codes == [CODES[names.index(name)], "OK"]
    remove_all(node, driver, names)
    assert overlaps(driver.calls()) == []


@pytest.mark.parametrize("worked", [False, True], ids=["undone", "done"])
@pytest.mark.parametrize("method", UNMAKING)
def test_after_each_error_of_a_call_that_unmakes_something_it_is_called_again(
    node: CsiNode, driver: ThreadDriver, method: str, worked: bool
) -> None:
    codes = [code for code in CODES if code != "NOT_FOUND"]  # which is success: below
    names = [code.lower().replace("_", "-") for code in codes]
    put_all(node, driver, names)
    for name in names:
        node.wait(name)
    for name, code in zip(names, codes, strict=True):
        driver.script(Rule(method=method, code=code, skip_work=not worked, match={"volume_id": name}))
    remove_all(node, driver, names)
    node.until_clean()
    for name, code in zip(names, codes, strict=True):
        answered = [call.code for call in driver.calls(method) if call.request["volumeId"] == name]
        assert answered == [code, "OK"]
    assert overlaps(driver.calls()) == []


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("method", [*MAKING, *UNMAKING])
def test_a_driver_that_crashes_in_a_call_is_called_again_when_it_is_back(top: Path, method: str, when: str) -> None:
    with running_fault_process(top / "driver", registration=registry(top) / "fault-reg.sock") as driver:
        driver.add_volume("disk")
        with CsiNode(top, **QUICK) as node:
            node.put("disk.json", objects.driver_object(driver.name), *objects.bound(driver.name, "disk"))
            node.until_registered(driver.name)
            if method in UNMAKING:
                shop = node.put("shop.json", pod("shop", objects.claimed("disk")))
                node.wait("shop")
                driver.script(Rule(method=method, crash=when))
                shop.unlink()
            else:
                driver.script(Rule(method=method, crash=when))
                shop = node.put("shop.json", pod("shop", objects.claimed("disk")))
            driver.until_crashed()
            driver.start()
            if method in MAKING:
                node.wait("shop")
                assert str(node.target("shop", "pv-disk")) in node.mounts()
                shop.unlink()
            node.wait("shop", "unmounted")
            node.until_clean()
            (volume,) = driver.volumes.all()
            assert (volume.staged, volume.published) == ([], {})
            assert "" in [call.code for call in driver.calls(method)]


@pytest.mark.parametrize("gate", ["gate_before", "gate_after"])
@pytest.mark.parametrize("method", [*MAKING, *UNMAKING])
def test_a_daemon_that_is_killed_in_a_call_finishes_it_when_it_is_back(
    node: CsiNode, driver: ThreadDriver, method: str, gate: str
) -> None:
    driver.add_volume("disk")
    node.put("disk.json", *objects.bound(driver.name, "disk"))
    rule = Rule(method=method, gate_before="go" * (gate == "gate_before"), gate_after="go" * (gate == "gate_after"))
    if method in MAKING:
        driver.script(rule)
    shop = node.put("shop.json", pod("shop", objects.claimed("disk")))
    if method in UNMAKING:
        node.wait("shop")
        driver.script(rule)
        shop.unlink()
    driver.until_reached("go")
    node.kill()
    driver.open("go")
    node.start()
    if method in MAKING:
        node.wait("shop")
        assert str(node.target("shop", "pv-disk")) in node.mounts()
        shop.unlink()
    node.until_clean()


def test_a_claim_s_pods_may_leave_while_any_call_is_at_work(node: CsiNode, driver: ThreadDriver) -> None:
    """Each of the calls is answered only after the Pod has left, and another one wants the volume by then."""
    driver.add_volume("disk")
    node.put("disk.json", *objects.bound(driver.name, "disk"))
    for number, method in enumerate([*MAKING, *UNMAKING]):
        name, later = f"pod-{number}", f"later-{number}"
        driver.script(Rule(method=method, gate_after=method))
        file = node.put(f"{name}.json", pod(name, objects.claimed("disk")))
        if method in UNMAKING:
            node.wait(name)
        else:
            driver.until_reached(method)
        file.unlink()
        node.settle()
        driver.until_reached(method)
        other = node.put(f"{later}.json", pod(later, objects.claimed("disk")))
        driver.open(method)
        node.wait(later)
        assert str(node.target(later, "pv-disk")) in node.mounts()
        other.unlink()
        node.until_clean()
    assert overlaps(driver.calls()) == []
