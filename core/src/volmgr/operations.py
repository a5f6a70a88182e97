"""Operations as values: what to do next for one volume, and how it went. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verb(StrEnum):
    """What an operation does; the values are the names used in messages, records and metrics."""

    ATTACH = "attach"
    WAIT_FOR_ATTACH = "wait_for_attach"
    VERIFY_ATTACHED = "verify_attached"
    MOUNT_DEVICE = "mount_device"
    MOUNT = "mount"
    EXPAND = "expand"
    UNMOUNT = "unmount"
    UNMOUNT_DEVICE = "unmount_device"
    DETACH = "detach"

    @property
    def is_making(self) -> bool:
        """Say whether the operation brings something about (the others take something away)."""
        return self not in _UNMAKING


_UNMAKING = frozenset({Verb.UNMOUNT, Verb.UNMOUNT_DEVICE, Verb.DETACH})


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing to do for one volume; `pod_uid` is empty for what concerns the volume as a whole.

    `reason` says in words why it is due (`volmgr plan` prints it).
    """

    verb: Verb
    volume: str
    pod_uid: str = ""
    reason: str = ""

    @property
    def key(self) -> tuple[Verb, str, str]:
        """What a back-off belongs to."""
        return (self.verb, self.volume, self.pod_uid)


class Ending(StrEnum):
    """How an operation ended (design: table of outcomes)."""

    DONE = "done"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    UNCERTAIN = "uncertain"
