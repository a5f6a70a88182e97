"""Volumes for claims where no controller makes them: which are to be made, grown and deleted, and when.

Belongs to the reconciler's thread; the calls run on workers, at most one for a claim's name at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from volmgr import pairing
from volmgr.admission import EVERYBODY, Held
from volmgr.claims import BOUND
from volmgr.errors import PluginError, TransientError, VolmgrError
from volmgr.giving_way import GivingWay
from volmgr.messages import Ask, Message
from volmgr.model.driver_info import driver_awaited
from volmgr.model.driver_sources import CSI_FIELD
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import PersistentVolumeClaim, StorageClass, ref_of
from volmgr.model.volume import PersistentVolume
from volmgr.populator import persistent_volume
from volmgr.provisioning_steps import ProvisionSteps, is_final
from volmgr.provisioning_tasks import DONE, FAILED, Finishing, Growing, Making, Task, perform, report_of
from volmgr.report.deletion import hindrance
from volmgr.report.events import Severity
from volmgr.sources.changes import ObjectChanged, ObjectLeft, VolumeUnfinished
from volmgr.sources.stock import volume_ref

if TYPE_CHECKING:
    from volmgr.desk import Desk
    from volmgr.timers import Timer

AT_ONCE = 10
"""Calls for one provisioner that run at once: each may hang for as long as its driver does, and no other's claims."""

Heard = Callable[[str], None]
"""Told how the first try of a deletion ended: why it failed, or nothing."""


@dataclass(slots=True)
class _Try:
    """What is known of a task that is not done."""

    task: Task
    delay: float = 0.0
    timer: Timer | None = None
    waits_for: str = ""
    set_up: str = ""
    """The volume of this node that has to go first."""
    heard: list[Heard] = field(default_factory=list[Heard])

    def cancel(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Provisioning:
    """Knows every claim that waits for a volume to be made or grown, and every volume that is to be finished."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._world = desk.world
        self._tries: dict[str, _Try] = {}
        """By a text that names what is done."""
        self._due: dict[str, None] = {}
        """What is to be started as soon as it may be."""
        self._after: dict[ObjectRef | str, dict[str, None]] = {}
        """What is due once a call has ended: one for the same claim, or any of a provisioner that is busy."""
        self._running: set[ObjectRef] = set()
        """The claims for which something runs."""
        self._busy = Counter[str]()
        """How many calls run for each provisioner."""
        self._awaited: dict[str, set[str]] = {}
        """What waits for something to appear, by its name."""
        self._hindered: set[str] = set()
        """What waits until nothing of its volume is set up on the node, no other call for it runs, or, after a start,
        drivers were looked for."""
        self._stopped = False

    # --- what is heard ---

    def hear(self, change: ObjectChanged) -> None:
        """Take in another object: a claim may want something, what claims wait for may be there."""
        item = change.item
        if self._desk.outside.provisions is None:
            return
        if isinstance(item, PersistentVolumeClaim):
            self._want(f"claim {ref_of(item)}", self._wish(item, change.revision))
        elif isinstance(item, StorageClass):
            self.retry_all()
        elif isinstance(item, PersistentVolume):
            self.look_again()

    def lose(self, change: ObjectLeft) -> None:
        """Take note that an object is gone."""
        if change.ref.kind == "PersistentVolumeClaim":
            self._want(f"claim {change.ref}", None)
        elif change.ref.kind == "PersistentVolume":
            self.look_again()

    def finish(self, message: VolumeUnfinished) -> None:
        """End what was begun for a volume whose claim is gone."""
        self._world.unfinished[message.volume] = message.why
        task = Finishing(message.claim, message.volume, message.provisioner, message.why)
        self._want(f"volume {message.volume}", task)

    def delete(self, volume: str, claim: ObjectRef, heard: Heard) -> None:
        """Delete a volume of which it is recorded that it is to be; `heard` is told how the first try ended."""
        key = f"volume {volume}"
        pv = self._volume(volume)
        maker = _maker_of(pv) if pv is not None else ""
        self.finish(VolumeUnfinished(volume, claim, maker, "it is being deleted, with what is on it"))
        self._tries[key].heard.append(heard)
        self._start_soon(key)

    def appeared(self, what: str) -> None:
        """Try again at once what waited for this."""
        for key in self._awaited.pop(what, ()):
            each = self._tries.get(key)
            if each is not None and each.waits_for == what:
                each.delay = 0.0
                self._start_soon(key)

    def retry_all(self) -> None:
        """Try everything again at once that is not running."""
        for key in self._tries:
            self._start_soon(key)

    def look_again(self) -> None:
        """Take note that something of a Pod, a volume or the search for drivers has changed: what waits may be free."""
        free = {key for key in self._hindered if not self._is_set_up(key)}
        self._hindered -= free
        for key in free:
            self._start_soon(key)

    def _is_set_up(self, key: str) -> bool:
        """Say whether what kept a task from being begun is there as it was, without looking through everything."""
        each = self._tries.get(key)
        return each is not None and bool(each.set_up) and self._world.actual.get(each.set_up) is not None

    def stop(self) -> None:
        """Start nothing any more."""
        self._stopped = True

    def _wish(self, claim: PersistentVolumeClaim, revision: str) -> Task | None:
        ref, maker = ref_of(claim), claim.metadata.annotations.get(pairing.MAKER, "")
        if claim.phase == "Pending" and maker:
            storage_class = pairing.claim_class(claim, "")
            return Making(ref, claim.metadata.uid, maker, storage_class, revision)
        pv = self._volume(claim.volume_name) if claim.phase == BOUND else None
        asked = pairing.asked(claim)
        if pv is None or not _maker_of(pv) or asked <= pv.size:
            return None
        return Growing(ref, pv.metadata.name, _maker_of(pv), asked)

    def _volume(self, name: str) -> PersistentVolume | None:
        entry = self._world.objects.get(volume_ref(name))
        return entry.item if entry is not None and isinstance(entry.item, PersistentVolume) else None

    def _want(self, key: str, task: Task | None) -> None:
        """Let something be done, or not any more; what is the same as before goes on as it is."""
        old = self._tries.get(key)
        if old is not None and old.task == task:
            return
        if old is not None:
            old.cancel()
            self._wait_for(key, old, "")
            del self._tries[key]
            self._due.pop(key, None)
        if task is not None:
            self._tries[key] = _Try(task, heard=old.heard if old is not None else [])
            self._start_soon(key)

    def _start_soon(self, key: str) -> None:
        each = self._tries.get(key)
        if each is not None:
            each.cancel()
            self._due[key] = None

    # --- what is started ---

    def step(self) -> None:
        """Start what is due, as far as it may run now."""
        if not self._due or self._stopped or self._world.readiness.read_only:
            return
        due, self._due = self._due, {}
        for key in due:
            each = self._tries.get(key)
            if each is None:
                continue
            if (other := self._in_the_way(each.task)) is not None:
                self._after.setdefault(other, {})[key] = None
            elif self._may_run(key, each) and (held := self._hold(key, each.task)) is not None:
                self._start(key, each, held)

    def _in_the_way(self, task: Task) -> ObjectRef | str | None:
        """Name the claim or provisioner of calls of which one has to end first."""
        if task.claim in self._running:
            return task.claim
        return task.provisioner if self._busy[task.provisioner] >= AT_ONCE else None

    def _may_run(self, key: str, each: _Try) -> bool:
        """Say whether a task can be begun; what cannot is due again when what it waits for happens."""
        task = each.task
        if isinstance(task, Making) and not each.delay and self._is_unserved(task.provisioner):
            self._wait_for(key, each, driver_awaited(task.provisioner))
            return False
        if self._world.is_looking_for_drivers(CSI_FIELD) and self._is_unserved(task.provisioner):
            self._wait_for(key, each, driver_awaited(task.provisioner))
            self._hindered.add(key)
            return False
        if not isinstance(task, Finishing):
            return not self._world.draining
        pv = self._volume(task.volume)
        hindered = hindrance(self._world, pv) if pv is not None else None
        self._world.unfinished[task.volume] = f"{task.why}; {hindered.why}" if hindered else task.why
        each.set_up = hindered.volume if hindered else ""
        if hindered:
            self._hindered.add(key)
        return hindered is None

    def _is_unserved(self, provisioner: str) -> bool:
        try:
            return self._world.plugins.provisioner(provisioner) is None
        except PluginError:
            return False  # it says so itself

    def _hold(self, key: str, task: Task) -> Held | None:
        """Keep other calls for its volume from overlapping with a task's, as its type says; None while one runs."""
        pv = None if isinstance(task, Making) else self._volume(task.volume)
        held = Held(volume=key, pod_uid=EVERYBODY, exclusive=self._exclusive_of(pv) if pv is not None else ())
        if self._world.admission.try_hold(held):
            return held
        self._hindered.add(key)
        return None

    def _exclusive_of(self, pv: PersistentVolume) -> tuple[str, ...]:
        try:
            typed = persistent_volume(self._world.plugins, pv)
            found: tuple[str, ...] = typed.type.ask("exclusive", typed.spec)
        except VolmgrError:
            return ()  # its type is not installed: nothing else is done to it
        return found

    def _start(self, key: str, each: _Try, held: Held) -> None:
        provisions = self._desk.outside.provisions
        assert provisions is not None  # noqa: S101 - nothing is wanted without
        task, later = each.task, self._desk.later(each.delay)
        steps = ProvisionSteps(
            host=self._desk.host,
            provisions=provisions,
            find=self._world.plugins.provisioner,
            allowed=self._desk.config.operation_deadline,
            node_name=self._desk.config.node_name,
            node=self._world.node,
        )
        self._running.add(task.claim)
        self._busy[task.provisioner] += 1
        self._wait_for(key, each, "")
        way = GivingWay(self._desk)

        def run() -> Message:
            text, error = perform(steps, task)
            if error is not None and not isinstance(task, Finishing):
                provisions.report(task.claim, report_of(task, error, later))
            return Ask(lambda: self._settle(key, task, text, error, lambda: self._over(way, held)))

        self._desk.outside.submit(way.noting(run))

    def _over(self, way: GivingWay, held: Held) -> None:
        way.over()
        for again in self._world.admission.release(held):
            self._desk.dirty[again] = None

    def _settle(self, key: str, task: Task, text: str, error: VolmgrError | None, over: Callable[[], None]) -> None:
        over()
        self._running.remove(task.claim)
        self._busy[task.provisioner] -= 1
        for ended in (task.claim, task.provisioner):
            self._due = {**self._after.pop(ended, {}), **self._due}
        each = self._tries.get(key)
        name = f"claim {task.claim.namespace}/{task.claim.name}"
        if text:
            self._desk.event(Severity.NORMAL, DONE[type(task)], text)
        if error is not None:
            self._desk.event(Severity.WARNING, FAILED[type(task)], f"{name}: {error}")
        if each is None or each.task != task:
            return
        each.cancel()
        if error is None:
            del self._tries[key]
            self._due.pop(key, None)
            if isinstance(task, Finishing):
                self._world.unfinished.pop(task.volume, None)
        else:
            self._again_later(key, each, error)
        self._answer(each, str(error) if error is not None else "")

    def _again_later(self, key: str, each: _Try, error: VolmgrError) -> None:
        if isinstance(each.task, Finishing):
            self._world.unfinished[each.task.volume] = f"{each.task.why}; {error}"
        self._wait_for(key, each, error.waits_for if isinstance(error, TransientError) else "")
        if is_final(error):
            return  # its claim, or its class, has to change
        each.delay = self._desk.later(each.delay)
        when = self._desk.outside.monotonic() + each.delay
        each.timer = self._desk.timers.at(when, lambda: self._start_soon(key))

    def _wait_for(self, key: str, each: _Try, what: str) -> None:
        """Let something wait for what is to appear, and for nothing else any more; empty: for nothing."""
        others = self._awaited.get(each.waits_for, set())
        others.discard(key)
        if not others:
            self._awaited.pop(each.waits_for, None)
        each.waits_for = what
        if what:
            self._awaited.setdefault(what, set()).add(key)

    def _answer(self, each: _Try, why: str) -> None:
        heard, each.heard = each.heard, []
        for tell in heard:
            tell(why)


def _maker_of(pv: PersistentVolume) -> str:
    return pv.metadata.annotations.get(pairing.PROVISIONED_BY, "")
