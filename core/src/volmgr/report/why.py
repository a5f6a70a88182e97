"""Why a Pod is not where it should be: which volume, which step, since when, last error, next try. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from volmgr.model.meta import ObjectRef
from volmgr.model.volume import Presence
from volmgr.report.claims import UnboundClaim, claim_lines, unbound_claim, unbound_claims
from volmgr.report.contact import age_lines, is_unserved, unserved_line
from volmgr.report.mounts import behind_lines
from volmgr.report.pods import HoldReport, PodState, hold_reports, pod_state
from volmgr.report.times import rfc3339
from volmgr.report.volumes import Lens, VolumeReport
from volmgr.report.waiting import timed_out_text

if TYPE_CHECKING:
    from volmgr.report.world import PodEntry, World

UNMOUNTED = "unmounted"
"""The condition under which `volmgr wait` waits for a Pod's volumes to go; the other one is `mounted`."""
_OF_CLAIM = "pvc/"
"""Before the `[NAMESPACE/]NAME` of a claim."""
_MOST_COMPLAINTS = 10
"""Of errors in files, when asked for a Pod that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyReport:
    """One Pod's troubles, or a claim's (then it is no `known` Pod); `text` has them all, one a line."""

    namespace: str
    name: str
    uid: str
    state: str
    known: bool
    source: str = ""
    origin: str = ""
    since: str | None = None
    volumes: tuple[VolumeReport, ...] = ()
    holds: tuple[HoldReport, ...] = ()
    complaints: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    claims: tuple[UnboundClaim, ...] = ()
    text: str = ""


def why(world: World, selector: str) -> tuple[WhyReport, ...]:
    """Report the Pods of a selector: more than one while an old one leaves; none known, what may be the reason."""
    entries = world.find_pods(selector)
    if entries:
        lens = Lens(world)
        return tuple(_known(lens, entry) for entry in entries)
    if world.actual.of_pod(selector) or any(orphan.pod_uid == selector for orphan in world.orphans.values()):
        return (_left_over(world, selector),)
    if selector.startswith(_OF_CLAIM):
        return (_claimed(world, selector.removeprefix(_OF_CLAIM)),)
    return (_unknown(world, selector),)


def why_lines(world: World, selector: str) -> tuple[str, ...]:
    """Give the lines of `why` for all Pods of a selector."""
    return tuple(line for report in why(world, selector) for line in report.text.splitlines())


def summary_for_timeout(world: World, selector: str, condition: str = "mounted") -> str:
    """Say what a wait that ran out still waited for, in kubelet's words (behaviours §2.14), and why."""
    lines = "\n".join(why_lines(world, selector))
    if condition == UNMOUNTED:
        uids = [selector, *(entry.pod.uid for entry in world.find_pods(selector))]
        names = {
            volume.name
            for uid in uids
            for volume in world.actual.of_pod(uid)
            if volume.mounts[uid].state is Presence.YES
        }
        return f"mounted volumes=[{' '.join(sorted(names))}]: timed out waiting for the condition\n{lines}"
    entry = next(iter(world.find_pods(selector)), None)
    if entry is None:
        return f"Pod {selector} is not known: timed out waiting for the condition\n{lines}"
    return f"{timed_out_text(world, entry)}\n{lines}"


def _known(lens: Lens, entry: PodEntry) -> WhyReport:
    world, pod = lens.world, entry.pod
    all_volumes = lens.volumes(pod.uid)
    volumes = tuple(report for report in all_volumes if not report.healthy)
    holds = hold_reports(entry)
    complaints = tuple(str(error) for error in world.complaints.get(entry.origin, ()))
    notes = _notes(world, entry)
    state = pod_state(world, entry, all_volumes)
    claims = unbound_claims(world, pod) if entry.errors else ()
    lines = [
        *notes,
        *(report.message for report in volumes),
        *(line for claim in claims for line in claim.lines()),
        *(f"held by {hold.text}" for hold in holds),
        *(f"its file has an error; of what is wrong, its last good version is used: {text}" for text in complaints),
    ]
    head = f"Pod {pod.key} ({pod.uid}): {state}"
    return WhyReport(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        uid=pod.uid,
        state=state,
        known=True,
        source=entry.source,
        origin=entry.origin,
        since=rfc3339(entry.since),
        volumes=volumes,
        holds=holds,
        complaints=complaints,
        notes=notes,
        claims=claims,
        text="\n".join([head, *(f"  {line}" for line in lines)]),
    )


def _notes(world: World, entry: PodEntry) -> tuple[str, ...]:
    """Say what concerns the Pod as a whole."""
    notes: list[str] = []
    finished = entry.pod.is_finished and not world.keeps_finished
    if entry.leaving or entry.pod.metadata.deletion_timestamp or (finished and entry.is_held):
        ends = "is terminating" if entry.pod.metadata.deletion_timestamp else "has finished"
        cause = f"left {entry.origin or entry.source}" if entry.leaving else ends
        waits = "; its volumes stay while it is held" if entry.is_held else "; its volumes go"
        notes.append(f"the Pod {cause}{waits}")
        if entry.running:
            notes.append(f"its containers still run: {', '.join(entry.running)} (the API server says)")
    elif not entry.processed and not (entry.errors or entry.awaited) and not world.draining:
        notes.append("its volumes have not been looked at yet")
    if entry.tidying:
        notes.append("its directory is being cleared away")
    if is_unserved(world, entry):
        notes.append(unserved_line(entry.source))
    notes.extend(behind_lines(world, entry))
    notes.extend(age_lines(world, entry))
    notes.extend(f"{o.path} is kept: {o.reason}" for o in world.orphans.values() if o.pod_uid == entry.pod.uid)
    if world.readiness.read_only:
        notes.append("the root directory is not adopted, so nothing is changed: run volmgr adopt")
    if world.draining:
        notes.append("the node is drained: nothing is mounted until volmgrd is started again")
    if notes or not entry.processed:
        notes.extend(world.not_ready_because)
    return tuple(notes)


def _left_over(world: World, uid: str) -> WhyReport:
    """Report a Pod that nobody declares and that still has something on the host."""
    volumes = tuple(report for report in Lens(world).volumes(uid) if not report.healthy)
    orphans = tuple(f"{o.path} is kept: {o.reason}" for o in world.orphans.values() if o.pod_uid == uid)
    lines = [f"Pod {uid}: no source has it", *(report.message for report in volumes), *orphans]
    return WhyReport(
        namespace="",
        name="",
        uid=uid,
        state=PodState.LEAVING,
        known=False,
        volumes=volumes,
        notes=orphans,
        text="\n  ".join(lines),
    )


def _claimed(world: World, selector: str) -> WhyReport:
    """Report a claim, for who asks for that instead of a Pod."""
    namespace, _, name = selector.rpartition("/")
    ref = ObjectRef("PersistentVolumeClaim", namespace or "default", name)
    unbound = unbound_claim(world, ref)
    lines = [*claim_lines(world, ref), "volmgr claims lists all; volmgr why POD says what a Pod that has it waits for"]
    return WhyReport(
        namespace=ref.namespace,
        name=name,
        uid="",
        state=(PodState.PENDING if unbound is not None else "bound") if ref in world.objects else PodState.UNKNOWN,
        known=False,
        claims=(unbound,) if unbound is not None else (),
        text="\n  ".join(lines),
    )


def _unknown(world: World, selector: str) -> WhyReport:
    """Report a Pod that nothing is known of: perhaps a file was refused, or a source is not read yet."""
    name = selector.rpartition("/")[2]
    all_texts = [str(error) for errors in world.complaints.values() for error in errors]
    naming = [text for text in all_texts if name in text]
    complaints = tuple((naming or all_texts)[:_MOST_COMPLAINTS])
    notes = world.not_ready_because
    lines = [f"Pod {selector}: no source has it", *notes, *(f"refused: {text}" for text in complaints)]
    if more := len(naming or all_texts) - len(complaints):
        lines.append(f"refused: {more} more; volmgr status lists all")
    return WhyReport(
        namespace="",
        name="",
        uid="",
        state=PodState.UNKNOWN,
        known=False,
        complaints=complaints,
        notes=notes,
        text="\n  ".join(lines),
    )
