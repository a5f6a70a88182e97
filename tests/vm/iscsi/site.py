"""A target of LIO and the guest's initiator, with what is left of either."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.eventually import eventually
from tests.vm.servers.iscsid import Iscsid
from tests.vm.servers.lio import Lio, Target
from tests.vm.servers.node import VmNode

IQN = "iqn.2026-01.io.test:target1"
TYPE = "kubernetes.io~iscsi"


def volume(target: Target, lun: int = 0, *portals: str, name: str = "v", **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - YAML
    """Give a Pod's volume of a LUN."""
    first, *others = portals or ("127.0.0.1:3260",)
    more = {"portals": others} if others else {}
    source = {"targetPortal": first, **more, "iqn": target.iqn, "lun": lun, "fsType": "ext4", **fields}
    return {"name": name, "iscsi": source}


def block(target: Target, lun: int = 0, *, name: str = "block") -> tuple[Mapping[str, Any], ...]:
    """Give a PersistentVolume of a LUN and its claim, to be used as a device."""
    return persistent(name, volume(target, lun)["iscsi"], mode="Block")


def persistent(
    name: str, source: Mapping[str, Any], *, size: str = "64Mi", mode: str = "Filesystem"
) -> tuple[Mapping[str, Any], ...]:
    """Give a PersistentVolume and its claim."""
    spec = {"accessModes": ["ReadWriteOnce"], "volumeMode": mode, "storageClassName": ""}
    return (
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {**spec, "capacity": {"storage": size}, "iscsi": dict(source)},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name},
            "spec": {**spec, "volumeName": name, "resources": {"requests": {"storage": size}}},
        },
    )


def claimed(claim: str, name: str = "v") -> dict[str, Any]:
    """Give a Pod's volume of a claim."""
    return {"name": name, "persistentVolumeClaim": {"claimName": claim}}


class Site:
    """What there is of iSCSI in the guest."""

    def __init__(self, lio: Lio, initiator: Iscsid) -> None:
        self.lio = lio
        self.initiator = initiator

    def clear(self) -> None:
        """Take away what a test that failed has left, and each target and disk."""
        self.initiator.clear()
        self.lio.clear()

    def left(self) -> list[str]:
        """Name each session, record, interface, disk and map."""
        found = [f"session {each}" for each in self.initiator.sessions()]
        found += [f"record {each}" for each in self.initiator.records()]
        found += [f"discovery {each}" for each in self.initiator.discoveries()]
        found += [f"interface {each}" for each in self.initiator.interfaces()]
        found += [f"disk {each}" for each in disks()]
        return found

    def until_nothing_is_left(self, node: VmNode) -> None:
        """Return when nothing of the node's volumes is left, neither on its disk nor in its kernel."""
        node.until_clean()
        eventually(lambda: not self.left(), lambda: f"nothing, but {self.left()}: {node.log_text()}")


def session_states() -> tuple[str, ...]:
    """Give the states of the node's sessions: LOGGED_IN, or FAILED where the target is silent."""
    states = Path("/sys/class/iscsi_session").glob("session*/state")
    return tuple(sorted(state.read_text().strip() for state in states))


def disk_states() -> tuple[str, ...]:
    """Give the states of the node's SCSI disks: `running`, or `transport-offline` where the target is gone for long."""
    states = (Path("/sys/block", each, "device/state") for each in disks() if each.startswith("sd"))
    return tuple(sorted(state.read_text().strip() for state in states))


def disks() -> tuple[str, ...]:
    """Give the node's SCSI disks, and its maps."""
    return tuple(sorted(each for each in os.listdir("/sys/block") if each.startswith(("sd", "dm-"))))


def file_of(node: VmNode, pod: str, name: str = "file", volume: str = "v") -> Path:
    """Give a file in a Pod's volume."""
    return node.root / "pods" / f"uid-{pod}" / "volumes" / TYPE / volume / name
