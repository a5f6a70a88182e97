"""What is done for one claim or volume where no controller does it: as values, and what is said of how it ended."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from volmgr.errors import UncertainError, VolmgrError
from volmgr.model.meta import ObjectRef
from volmgr.provisioning_steps import ProvisionSteps, is_final

log = logging.getLogger("volmgr.provisioning")


@dataclass(frozen=True, slots=True)
class Making:
    """A claim waits for a volume that is to be made; another `revision` is tried at once."""

    claim: ObjectRef
    uid: str
    provisioner: str
    storage_class: str
    """As the claim names it; empty is the default one."""
    revision: str


@dataclass(frozen=True, slots=True)
class Growing:
    """A claim asks for more than its volume has; `size` in bytes."""

    claim: ObjectRef
    volume: str
    provisioner: str
    size: int


@dataclass(frozen=True, slots=True)
class Finishing:
    """What is begun for a volume whose claim is gone is to be ended."""

    claim: ObjectRef
    volume: str
    provisioner: str
    why: str


Task = Making | Growing | Finishing

DONE = {Making: "ProvisioningSucceeded", Growing: "VolumeResizeSuccessful", Finishing: "VolumeFinished"}
FAILED = {Making: "ProvisioningFailed", Growing: "VolumeResizeFailed", Finishing: "VolumeFailedDelete"}
"""Reasons of events, by the names that Kubernetes' controllers give them."""


def perform(steps: ProvisionSteps, task: Task) -> tuple[str, VolmgrError | None]:
    """Take a step on a worker; whatever foreign code raises is an error of this task alone."""
    try:
        match task:
            case Making():
                return steps.make(task.claim, task.uid), None
            case Growing():
                return steps.grow(task.volume, task.size), None
            case Finishing():
                return steps.finish(task.volume), None
    except VolmgrError as error:
        return "", error
    except Exception as error:
        log.exception("bug of a provisioner, or ours")
        return "", UncertainError(f"bug, see the log: {type(error).__name__}: {error}")


def report_of(task: Making | Growing, error: VolmgrError, later: float) -> str:
    """Say of a claim why nothing has been made or grown for it yet."""
    if isinstance(task, Making):
        whose = f"class {task.storage_class}" if task.storage_class else "the default class"
        what = f"{whose}: {error}"
    else:
        what = f"its volume is not grown: {error}"
    if is_final(error):
        return f"{what}; tried again when the claim or its class changes"
    return f"{what}; tried again in {later:g} s"
