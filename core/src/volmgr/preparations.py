"""Getting a Pod's containers ready to start: subPaths are bound on a worker, and no operation runs meanwhile."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from volmgr.admission import Held
from volmgr.errors import OperationError, VolmgrError
from volmgr.giving_way import GivingWay
from volmgr.messages import Ask, Message
from volmgr.model.downward import Amounts
from volmgr.model.quantity import Quantity
from volmgr.report.mounts import MountsReport, Plan, plan_mounts
from volmgr.subpath_steps import Bound, carry_out

if TYPE_CHECKING:
    from volmgr.desk import Desk

log = logging.getLogger("volmgr.preparations")


@dataclass(slots=True, eq=False)
class Preparation:
    """Somebody wants to start the containers of a Pod, or the one that is named; `amounts` is what the machine has."""

    selector: str
    container: str = ""
    amounts: Amounts = field(default_factory=dict[str, Quantity])
    done: threading.Event = field(default_factory=threading.Event)
    waits_for: str = "the reconciler"
    report: MountsReport | None = None
    error: Exception | None = None

    def result(self) -> MountsReport:
        """Give the report; raises KeyError for an unknown Pod, SpecError, or OperationError when it is not done."""
        if self.error is not None:
            raise self.error
        if self.report is None:
            message = f"preparing the mounts of pod {self.selector} waits for {self.waits_for}; try again"
            raise OperationError(message)
        return self.report


class Preparations:
    """Belongs to the reconciler's thread. Each holds its volumes as an operation of that Pod would."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._world = desk.world
        self._pending: list[Preparation] = []
        self._stopped = False

    def stop(self) -> None:
        """Start nothing any more."""
        self._stopped = True

    def begin(self, preparation: Preparation) -> None:
        """Start now, or as soon as the volumes are free and as they are wanted."""
        if not self._try(preparation):
            self._pending.append(preparation)

    def retry(self) -> None:
        """Start what can be started by now."""
        if self._pending:
            self._pending = [each for each in self._pending if not self._try(each)]

    def give_up(self, preparation: Preparation) -> None:
        """Start it no more."""
        self._pending = [each for each in self._pending if each is not preparation]

    def _try(self, preparation: Preparation) -> bool:
        """Start a preparation; False when it has to wait."""
        try:
            plan = self._plan(preparation)
        except (KeyError, VolmgrError) as error:
            preparation.error = error
            preparation.done.set()
            return True
        waits_for = self._waits_for(plan)
        if waits_for:
            preparation.waits_for = waits_for
            return False
        held = self._hold(plan)
        if held is None:
            preparation.waits_for = f"operations on {', '.join(plan.volumes)} to end"
            return False
        self._start(preparation, plan, held)
        return True

    def _waits_for(self, plan: Plan) -> str:
        if self._stopped:
            return "volmgrd to end"
        if not self._world.reconstructed:
            return "what is mounted to be found"
        return f"{', '.join(plan.awaited)} to be mounted as it is wanted" if plan.awaited else ""

    def _plan(self, preparation: Preparation) -> Plan:
        if self._world.readiness.read_only:
            message = "the root directory is not adopted, so nothing is prepared: run volmgr adopt"
            raise OperationError(message)
        node_name = self._desk.config.node_name
        return plan_mounts(self._world, preparation.selector, preparation.container, preparation.amounts, node_name)

    def _hold(self, plan: Plan) -> tuple[Held, ...] | None:
        """Hold all volumes of which something is to be bound, or none."""
        taken: list[Held] = []
        for volume in plan.volumes:
            held = Held(volume, plan.report.uid)
            if not self._world.admission.try_hold(held):
                self._release(taken)
                return None
            taken.append(held)
        return tuple(taken)

    def _release(self, taken: list[Held] | tuple[Held, ...]) -> None:
        for held in taken:
            for name in self._world.admission.release(held):
                self._desk.dirty[name] = None

    def _start(self, preparation: Preparation, plan: Plan, held: tuple[Held, ...]) -> None:
        preparation.waits_for = f"the subPaths of {', '.join(plan.volumes)} to be bound"
        way = GivingWay(self._desk)
        for each in held:
            self._world.preparing[each.volume, each.pod_uid] = self._world.clock

        def perform() -> Message:
            """Run on a worker."""
            try:
                bound = carry_out(self._desk.host, plan)
            except Exception as error:  # whatever it is, the volumes are given back
                log.exception("preparing the mounts of pod %s", preparation.selector)
                problem = OperationError(f"preparing the mounts of pod {preparation.selector}: {error}")
                return Ask(lambda: self._settle(preparation, problem, held, way))
            return Ask(lambda: self._settle(preparation, bound, held, way))

        self._desk.outside.submit(way.noting(perform))

    def _settle(
        self, preparation: Preparation, ending: Bound | Exception, held: tuple[Held, ...], way: GivingWay
    ) -> None:
        way.over()
        if isinstance(ending, Exception):
            preparation.error = ending
        else:
            self._note(ending)
            preparation.report = ending.report
        for each in held:
            del self._world.preparing[each.volume, each.pod_uid]
        self._release(held)
        preparation.done.set()

    def _note(self, bound: Bound) -> None:
        """Remember what each subPath shows."""
        uid = bound.report.uid
        for part in bound.parts:
            volume = self._world.actual.get(part.volume)
            mount = volume.mounts.get(uid) if volume else None
            if volume is not None and mount is not None:
                shown = MappingProxyType({**mount.subpaths, part.key: part.revision})
                self._desk.put(part.volume, volume.with_mount(replace(mount, subpaths=shown)))
