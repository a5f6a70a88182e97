"""Who hears that a volume grows: the claim, by its status, and the record of what it has grown to."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from volmgr.claims import is_grown
from volmgr.errors import OperationError
from volmgr.jobs import next_mount
from volmgr.model.growth import Growth, GrowthStep
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import PersistentVolumeClaim
from volmgr.operations import Ending, Verb
from volmgr.report.events import Severity

if TYPE_CHECKING:
    from volmgr.actual import ActualVolume
    from volmgr.desired import DesiredVolume
    from volmgr.desk import Desk
    from volmgr.jobs import Job, Result
    from volmgr.operations import Operation


def begun(desk: Desk, job: Job) -> None:
    """Say that a volume is about to grow, if that is what a job is for."""
    if job.operation.verb is Verb.EXPAND and job.desired is not None:
        _tell(desk, job.desired, GrowthStep.BEGUN)


def ended(desk: Desk, result: Result) -> None:
    """Say what failed; that it has grown is seen when it is looked at."""
    operation, desired = result.job.operation, result.job.desired
    if operation.verb is not Verb.EXPAND or desired is None:
        return
    if result.final and result.waits_for != next_mount(operation.volume):
        _tell(desk, desired, GrowthStep.INFEASIBLE, result.error)
    elif result.ending is Ending.FAILED:
        _tell(desk, desired, GrowthStep.FAILED, result.error)


def look_at(desk: Desk, desired: DesiredVolume, actual: ActualVolume) -> None:
    """Say that a volume has grown while its claim does not know, also where we were killed before that was said."""
    if 0 < desired.known_size < desired.size <= actual.size and desired.grows:
        _tell(desk, desired, GrowthStep.DONE)


def refuse(desk: Desk, operation: Operation, desired: DesiredVolume | None) -> None:
    """Say of what is mounted read-only that it is smaller than its PersistentVolume and stays so, as kubelet does."""
    mount = desired.mounts.get(operation.pod_uid) if desired else None
    if desired is None or mount is None or not (mount.spec.read_only and desired.facets.expand):
        return
    pv = mount.spec.pv
    if pv is not None and 0 < desired.known_size < pv.size:
        text = f"{Verb.EXPAND}: requested read-only file system: it has {desired.known_size} bytes of {pv.size}"
        desk.event(Severity.WARNING, "FileSystemResizeFailed", text, uid=operation.pod_uid, volume=operation.volume)


def remember(desk: Desk, result: Result) -> None:
    """Remember what a claim's volume has grown to, on a worker; without that, it is grown to that size once more."""
    job = result.job
    pv = job.desired.spec.pv if job.desired else None
    if job.operation.verb is Verb.EXPAND and result.ending is Ending.DONE and pv is not None:
        with suppress(OperationError):
            desk.outside.grown(pv.metadata.name, result.facts.size)


def _tell(desk: Desk, desired: DesiredVolume, step: GrowthStep, error: str = "") -> None:
    """Tell the claim; nothing where it says already that it has grown: this node is not the first one."""
    pv = desired.spec.pv
    if pv is None or pv.claim_ref is None:
        return
    ref = ObjectRef("PersistentVolumeClaim", pv.claim_ref.namespace, pv.claim_ref.name)
    entry = desk.world.objects.get(ref)
    claim = entry.item if entry is not None else None
    size = desired.size
    if isinstance(claim, PersistentVolumeClaim) and not is_grown(claim, size):
        desk.outside.growing(Growth(claim=ref, uid=claim.metadata.uid, size=size, step=step, error=error))
