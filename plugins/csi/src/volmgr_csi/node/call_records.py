"""What was begun, and what was done, for a volume: our own records beside kubelet's `vol_data.json`.

They say which driver has a volume when kubelet's file is damaged or missing, and whether a call was ever done: what
was, is undone although a later call failed. A power cut takes mounts with it, so a record need not survive one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from volmgr_csi import checkpoints
from volmgr_csi.checkpoints import Body, Checkpoints
from volmgr_csi.driver.names import is_driver_name
from volmgr_csi.node.layout import digest
from volmgr_csi.node.vol_data import VolData

if TYPE_CHECKING:
    from volmgr.plugin import Host

_DONE, _MOUNTED = "done", "mounted"


@dataclass(slots=True, eq=False)
class CallRecord:
    """The record of one thing that a driver does for a volume: staging it, or publishing it for one Pod.

    One object serves one operation, which nobody else writes the record beside: it is read once.
    """

    records: Checkpoints
    name: str
    _body: Body | None = None
    _is_read: bool = False

    @property
    def is_there(self) -> bool:
        """Say whether anything was begun; a damaged record says so, too."""
        return self.records.has(self.name)

    @property
    def is_done(self) -> bool:
        """Say whether it was done once, and not undone since."""
        return bool((self._said() or {}).get(_DONE))

    @property
    def was_mounted(self) -> bool | None:
        """Say whether something was mounted where it was done; None: nobody knows."""
        said = (self._said() or {}).get(_MOUNTED)
        return said if isinstance(said, bool) else None

    def of(self) -> VolData | None:
        """Say which volume it is; None when nothing was begun, or nobody knows."""
        body = self._said()
        if body is None or not is_driver_name(checkpoints.text(body, "driver")) or not checkpoints.text(body, "handle"):
            return None
        return VolData(
            driver=checkpoints.text(body, "driver"),
            handle=checkpoints.text(body, "handle"),
            lifecycle=checkpoints.text(body, "lifecycle"),
        )

    def put(self, data: VolData, *, done: bool, mounted: bool | None = None) -> None:
        """Say that it is begun, or done, and whether something is mounted there then; raises OperationError."""
        said: dict[str, object] = {"driver": data.driver, "handle": data.handle, "lifecycle": data.lifecycle}
        said |= {_DONE: done, _MOUNTED: mounted}
        if self._said() != said:
            self.records.write(self.name, said)
            self._body = said

    def remove(self) -> None:
        """Say that it is undone; raises OperationError."""
        self.records.remove(self.name)
        self._body, self._is_read = None, True

    def _said(self) -> Body | None:
        if not self._is_read:
            self._body, self._is_read = self.records.read(self.name), True
        return self._body


def of_staging(host: Host, volume: str) -> CallRecord:
    """Give the record of a volume that is staged, by its unique name."""
    return CallRecord(Checkpoints(host, "staged", durable=False), digest(volume))


def of_publishing(host: Host, pod_uid: str, spec_name: str) -> CallRecord:
    """Give the record of a volume that is published for one Pod."""
    return CallRecord(Checkpoints(host, "published", durable=False), f"{pod_uid}~{digest(spec_name)}")
