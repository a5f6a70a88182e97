"""A start says nothing of drivers and claims that it only has not looked for yet."""

from __future__ import annotations

import json
from pathlib import Path

from tests.csi.fault_driver.profile import EVERYTHING
from tests.csi.fault_driver.running import running_fault_driver
from tests.csi.node import CsiNode, registry
from tests.csi.objects import bound, claim, claimed, storage_class
from tests.root.acceptance.outside import pod

NAME = "fault.csi.test"
SLOW = "10m"
"""A back-off so long that what failed once would not be there at the end of the test."""


def test_what_waits_for_a_volume_when_the_daemon_starts_is_mounted_without_a_failure(top: Path) -> None:
    with (
        running_fault_driver(
            top / "driver", registration=registry(top) / "fault-reg.sock", controller=EVERYTHING
        ) as driver,
        CsiNode(top, backoff_initial=SLOW, backoff_max=SLOW) as node,
    ):
        driver.add_volume("disk")
        node.until_registered(NAME)
        node.kill()
        node.put("driver.json", storage_class("fast", NAME), *bound(NAME, "disk"))
        node.put("made.json", claim("data", size="1Mi", storageClassName="fast"), pod("made", claimed("data")))
        node.put("there.json", pod("there", claimed("disk")))
        node.start()
        node.wait("made")
        node.wait("there")
        _, body = node.http("GET", "/v1/events")
        events = [json.loads(line) for line in body.splitlines()]
        assert [each["message"] for each in events if each["severity"] == "Warning"] == []


def test_growth_that_is_asked_for_when_the_daemon_starts_is_no_failure(top: Path) -> None:
    with (
        running_fault_driver(
            top / "driver", registration=registry(top) / "fault-reg.sock", controller=EVERYTHING
        ) as driver,
        CsiNode(top, backoff_initial=SLOW, backoff_max=SLOW) as node,
    ):
        node.until_registered(NAME)
        node.put("driver.json", storage_class("fast", NAME, allowVolumeExpansion=True))
        made = pod("made", claimed("data"))
        node.put("made.json", claim("data", size="1Mi", storageClassName="fast"), made)
        node.wait("made")
        node.kill()
        node.put("made.json", claim("data", size="2Mi", storageClassName="fast"), made)
        node.start()
        driver.until_called("ControllerExpandVolume", code="OK")
        _, body = node.http("GET", "/v1/events")
        events = [json.loads(line) for line in body.splitlines()]
        assert [each["message"] for each in events if each["reason"] == "VolumeResizeFailed"] == []
