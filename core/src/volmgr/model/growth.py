"""How far the node's part in growing a claim's volume has come, as the claim's status is to say it. Pure.

Source: `behaviours.md` §2.13, which is `resize_util.go` of kubelet 1.37.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from volmgr.model.meta import ObjectRef

PENDING = "NodeResizePending"
IN_PROGRESS = "NodeResizeInProgress"
INFEASIBLE = "NodeResizeInfeasible"
NODE_RESIZES = frozenset({PENDING, IN_PROGRESS})
"""What a claim's status says of its growth when it is the node's turn."""


class GrowthStep(Enum):
    """What has become of it."""

    BEGUN = "begun"
    DONE = "done"
    FAILED = "failed"
    """It is tried again, be it after the next mount."""
    INFEASIBLE = "infeasible"
    """It can never have that size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What is to be said of a claim, and only of the one with this UID; `size` is bytes."""

    claim: ObjectRef
    uid: str
    size: int
    step: GrowthStep
    error: str = ""
