"""An engine without a reconciler: queries run at once, on a world built by hand."""

import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import TypeVar

from tests.unit.report.worlds import empty_world
from volmgr.errors import ManifestError, OperationError, PluginError, SpecError
from volmgr.model.meta import ObjectRef
from volmgr.report.drain import Drained
from volmgr.report.events import EventLog
from volmgr.report.mounts import MountsReport, plan_mounts
from volmgr.report.orphans import OrphansReport, orphans_report, with_strangers
from volmgr.report.waiting import is_mounted, is_unmounted
from volmgr.report.why import summary_for_timeout
from volmgr.report.world import Hold, World
from volmgr.server.api import ApiServer
from volmgr.server.engine import ApplyResult, Deleted
from volmgr.server.listen import listen
from volmgr.subpath_steps import carry_out
from volmgr.testing import FakeHost

T = TypeVar("T")


@dataclass(slots=True)
class FakeEngine:
    """Does what it is asked on a world that the test builds; `left` is what a drain cannot take down."""

    world: World = field(default_factory=empty_world)
    left: tuple[str, ...] = ()
    refuse_reload: bool = False
    stuck: bool = False
    reloaded: Callable[[], None] = field(default=lambda: None)
    """Called when a reload was asked for."""
    changed: threading.Condition = field(default_factory=threading.Condition)
    strangers: tuple[tuple[str, str], ...] = ()
    """Volumes that storage has and nobody knows: whose, and which."""
    problems: tuple[str, ...] = ()
    asked: list[str] = field(default_factory=list[str])

    def ask(self, query: Callable[[World], T], timeout: float = 10.0) -> T:
        if self.stuck:
            message = f"no answer within {timeout} s"
            raise TimeoutError(message)
        return query(self.world)

    def wait(self, pod: str, condition: str, timeout: float) -> str | None:
        reached = is_mounted if condition == "mounted" else is_unmounted
        self.asked.append(f"wait {pod} {condition}")
        with self.changed:
            if self.changed.wait_for(lambda: reached(self.world, pod), timeout):
                return None
        return summary_for_timeout(self.world, pod, condition)

    def apply(self, data: bytes) -> tuple[ApplyResult, ...]:
        if b"broken" in data:
            raise ManifestError("is no Pod", document=2, field="spec", remedy="write one")
        return (ApplyResult(kind="Pod", namespace="default", name="web", uid="uid-web", action="created"),)

    def delete(self, pod: str) -> Deleted:
        if pod == "filed":
            raise SpecError("Pod filed belongs to /manifests/filed.yaml; remove that file")
        if not (found := self.world.find_pods(pod)):
            raise KeyError(pod)
        return Deleted(found[0].pod.uid)

    def hold(self, pod: str, pid: int, who: str) -> Hold:
        entry = next(iter(self.world.find_pods(pod)), None)
        if entry is None:
            raise KeyError(pod)
        if pid == 1:
            raise OperationError("process 1 never ends")
        hold = Hold(id="h1", pod_uid=entry.pod.uid, pid=pid, start_time=5, boot_id="b", who=who)
        entry.holds[hold.id] = hold
        return hold

    def mounts(self, pod: str, container: str, timeout: float) -> MountsReport:
        self.asked.append(f"mounts {pod} {container} {timeout:g}")
        return carry_out(FakeHost(), plan_mounts(self.world, pod, container, {})).report

    def release(self, hold_id: str) -> bool:
        return any(entry.holds.pop(hold_id, None) for entry in self.world.pods.values())

    def release_volume(self, name: str) -> str:
        if name == "unknown":
            raise KeyError(name)
        self.asked.append(f"release {name}")
        return f"PersistentVolume {name} is free"

    def delete_volume(self, claim: ObjectRef | None, volume: str, timeout: float) -> str:
        wanted = f"{claim.namespace}/{claim.name}" if claim is not None else volume
        if "unknown" in wanted:
            raise KeyError(wanted)
        if "used" in wanted:
            raise OperationError(f"PersistentVolume of {wanted} is not deleted: default/web still has it")
        self.asked.append(f"delete {wanted} {timeout:g}")
        return f"the volume of {wanted} is deleted"

    def orphans(self) -> OrphansReport:
        return with_strangers(orphans_report(self.world), self.strangers, self.problems)

    def drain(self, timeout: float) -> Drained:
        self.asked.append(f"drain {timeout:g}")
        return Drained(self.left, tuple(f"{name}: its Pod is held" for name in self.left))

    def adopt(self) -> str:
        return "adopted 3 Pods"

    def reload(self) -> str:
        if self.refuse_reload:
            raise PluginError("volmgr-nfs 2 cannot be imported; the old packages stay in use")
        self.reloaded()
        return "reloading"

    def accept_manifests(self) -> str:
        return "/manifests is accepted as it is"

    def accept_cluster(self) -> str:
        return "2 Pods go now"

    @property
    def events(self) -> EventLog:
        return self.world.events


class Served:
    """An API server with the loop that the daemon would drive it with."""

    def __init__(self, engine: FakeEngine, path: Path) -> None:
        self.engine = engine
        self.path = path
        self.server = ApiServer(engine, listen(path), frozenset())
        self._wake = threading.Event()
        self._selector = DefaultSelector()
        self._selector.register(self.server, EVENT_READ)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._wake.is_set():
            if self._selector.select():
                self.server.accept_ready()

    def drop_clients(self) -> None:
        """Close every connection, as executing the daemon anew does; waits that are cut off never answer."""
        for connection in self.server.connections():
            with suppress(OSError):  # it may be closing already
                connection.shutdown(socket.SHUT_RDWR)

    def drop_clients_soon(self) -> None:
        """As the daemon does after a reload: answer, then close."""
        for connection in self.server.connections():
            connection.shutdown(socket.SHUT_RD)

    def stop(self) -> None:
        """Stop as the daemon does, leaving the socket file."""
        self._wake.set()
        self.engine.events.close()
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(str(self.path))  # so that the loop looks
            self._thread.join()
        self._selector.close()
        self.server.close()


@contextmanager
def serving(engine: FakeEngine, path: Path) -> Generator[Served]:
    """Serve an engine on a socket while the block runs."""
    served = Served(engine, path)
    try:
        yield served
    finally:
        served.stop()
