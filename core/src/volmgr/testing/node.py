"""A whole node in one thread: the real registry and reconciler over any host, with a clock of its own.

Nothing sleeps and nothing is random: chores run when `settle()` says so, in the order in which they were asked for
(or as `choose` picks), and time passes by `advance()`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from volmgr import manifest, root
from volmgr.admission import Admission
from volmgr.config import Config
from volmgr.desk import Outside
from volmgr.helper_records import HelperRecords
from volmgr.holds import Holds
from volmgr.host.capacity import capacity
from volmgr.messages import Ask, DriverDeclared, DriverWithdrawn, HoldGone, HoldTaken, Message, Reconstructed
from volmgr.model.driver_info import DriverInfo
from volmgr.model.growth import Growth
from volmgr.model.meta import ObjectRef
from volmgr.plugins import Plugins
from volmgr.preparations import Preparation
from volmgr.reconciler import Reconciler
from volmgr.reconstruct import reconstruct
from volmgr.report.events import EventLog
from volmgr.report.mounts import MountsReport
from volmgr.report.waiting import is_mounted, is_unmounted
from volmgr.report.world import Hold, World
from volmgr.sources.offers import API_SERVER
from volmgr.sources.registry import Registry
from volmgr.testing.fault_host import FaultHost, Killed
from volmgr.volume_type import Origin
from volmgr.waiters import Waiter

if TYPE_CHECKING:
    from volmgr.host.interface import Host
    from volmgr.plugin import VolumePlugin

FILES = "directory"
"""The name of the source that `put_file` speaks for."""


def plugins_of(*types: VolumePlugin[Any]) -> Plugins:
    """Give a set of plugins with these types, as if each were installed from a package of its own."""
    plugins = Plugins()
    for plugin in types:
        plugins.add(plugin, Origin(f"test-{type(plugin).__name__.lower()}", "0", "test"))
    return plugins


class TestNode:
    """A node that is started, killed and started again on the same host."""

    __test__ = False  # pytest: this is no test

    def __init__(
        self,
        host: Host,
        plugins: Plugins,
        config: Config | None = None,
        *,
        sources: Iterable[str] = ("api",),
        choose: Callable[[int], int] = lambda _count: 0,
        fetched_kinds: Iterable[str] = (),
    ) -> None:
        self.host = host
        self.plugins = plugins
        self.config = config or Config()
        self.sources = tuple(sources)
        self.choose = choose
        """Picks the next of `count` chores that wait."""
        self.fetched_kinds = frozenset(fetched_kinds)
        """Kinds of objects that an API server has, where there is one: see `serve`."""
        self.referred: set[ObjectRef] = set()
        """Objects of these kinds that Pods refer to, as the API server's source was told."""
        self.in_use: list[tuple[str, ...]] = []
        """Every list of volumes in use that the node status was to show."""
        self.growths: list[Growth] = []
        """What a cluster would be told of the growth of claims' volumes."""
        self.entries: dict[str, DriverInfo] = {}
        """Drivers of `csi` of which a cluster would be told, by name."""
        self.now = 1_000_000.0
        """Seconds on both of the node's clocks."""
        self.processes: dict[int, int] = {}
        """Live processes that may hold Pods, or work for an earlier daemon: PID to start time."""
        self._chores: list[Callable[[], Message]] = []
        self.start()

    def start(self) -> None:
        """Start the daemon's insides on the host, as after kill -9: only the host is remembered."""
        host = self.host
        self._chores = []
        self.world = World(
            paths=host.paths,
            plugins=self.plugins,
            events=EventLog(lambda: self.now, self.config.events_kept),
            admission=Admission(self.config),
            fetched_kinds=self.fetched_kinds,
        )
        self.referred = set()
        self.in_use = []
        self.growths = []
        self.entries = {}
        self.registry = Registry(
            host.files,
            host.paths,
            self._post,
            node_name=self.config.node_name,
            binds_claims=self.config.bind_claims,
            serves=self.plugins.makes_volumes,
        )
        self.reconciler = Reconciler(self.world, host, self.config, self._outside())
        self.holds = Holds(host, self.processes.get)
        self.world.sources.update(dict.fromkeys(self.sources, "not read yet"))
        for source in self.sources:
            self.registry.expect(source)
        self.reconciler.set_read_only(read_only=root.is_foreign(host))
        self.registry.start()
        for hold in self.holds.load():
            self.reconciler.post(HoldTaken(hold))
        self.reconciler.run("looking for what is mounted", self._reconstruct)

    def _post(self, message: Message) -> None:
        self.reconciler.post(message)

    def _reconstruct(self) -> Message:
        attach = self.config.controller_attaches
        survivors = HelperRecords(self.host, started=self.processes.get).load()
        return Reconstructed(reconstruct(self.host, self.plugins, controller_attach=attach), survivors)

    def _outside(self) -> Outside:
        return Outside(
            monotonic=lambda: self.now,
            wall=lambda: self.now,
            submit=self._submit,
            forget=self._forget,
            retain=self._retain,
            keep=self._keep,
            grown=self._grown,
            provisions=self.registry.provisions,
            referred=self._refer,
            in_use=self.in_use.append,
            growing=self.growths.append,
            declared=lambda info: self.entries.__setitem__(info.name, info),
            withdrawn=self.entries.__delitem__,
        )

    def _refer(self, added: frozenset[ObjectRef], removed: frozenset[ObjectRef]) -> None:
        self.referred = (self.referred | added) - removed

    def _forget(self, uid: str) -> bool:
        return self.registry.forget(uid)

    def _retain(self, refs: frozenset[ObjectRef], _uids: frozenset[str]) -> None:
        def retain() -> Message:
            self.registry.retain(refs)
            return Ask(lambda: None)

        self.reconciler.run("keeping the objects in use on disk", retain)

    def _keep(self, refs: frozenset[ObjectRef]) -> None:
        self.registry.keep(refs)

    def _grown(self, volume: str, size: int) -> None:
        self.registry.grown(volume, size)

    def _submit(self, chore: Callable[[], Message]) -> None:
        self._chores.append(chore)

    # --- what the world does to the node ---

    def sources_ready(self, *names: str) -> None:
        """Say that these sources (all, when none is named) were read whole."""
        for name in names or self.sources:
            self.registry.state(name, ready=True)
        self.settle()

    def source_lost(self, name: str, problem: str) -> None:
        """Say that a source is not ready any more."""
        self.registry.state(name, ready=False, problem=problem)
        self.settle()

    def apply(self, *documents: Mapping[str, Any]) -> tuple[str, ...]:
        """Send Pods by the API, as the server would; gives their UIDs; raises what the server would."""
        uids: list[str] = []
        for document in documents:
            parsed = manifest.parse(json.dumps(document).encode(), "", self.plugins)
            if parsed.errors:
                raise parsed.errors[0]
            uids.extend(self.registry.apply(item).pod.uid for item in parsed.items)
        self.settle()
        return tuple(uids)

    def delete(self, uid: str) -> None:
        """Delete a Pod by the API."""
        self.registry.delete(uid)
        self.settle()

    def put_file(self, name: str, *documents: Mapping[str, Any], text: str | None = None) -> None:
        """Let a manifest file say this (JSON documents, or any text), read stably."""
        data = text if text is not None else "\n---\n".join(map(json.dumps, documents))
        self._generation = getattr(self, "_generation", 0) + 1
        parsed = manifest.parse(data.encode(), name, self.plugins)
        self.registry.offer(FILES, name, f"file-{self._generation}", parsed)
        self.settle()

    def remove_file(self, name: str) -> None:
        """Let a manifest file be deleted, for longer than `removal_settle`."""
        self.registry.withdraw(FILES, name)
        self.settle()

    def serve(self, *documents: Mapping[str, Any]) -> None:
        """Let the API server show these Pods and objects, each in place of what it showed of that name."""
        for document in documents:
            value = manifest.read_object(document, self.plugins, status=True)
            self._generation = getattr(self, "_generation", 0) + 1
            raw = b"" if document["kind"] == "Secret" else json.dumps(document).encode()
            parsed = manifest.Parsed(items=(manifest.Item(value, 1, raw),))
            self.registry.offer(API_SERVER, _origin(document), str(self._generation), parsed, read_at=self.now)
        self.settle()

    def serve_no_more(self, *documents: Mapping[str, Any]) -> None:
        """Let the API server have these no longer."""
        for document in documents:
            self.registry.withdraw(API_SERVER, _origin(document))
        self.settle()

    def hold(self, uid: str, pid: int) -> Hold:
        """Let a process hold a Pod."""
        self.processes.setdefault(pid, int(self.now))
        hold = self.holds.add(uid, pid, "")
        self.reconciler.post(HoldTaken(hold))
        self.settle()
        return hold

    def release(self, hold: Hold) -> None:
        """Let a hold end, as when its process does."""
        self.processes.pop(hold.pid, None)
        self.holds.remove(hold.id)
        self.reconciler.post(HoldGone(hold.id, hold.pod_uid))
        self.settle()

    def declare(self, info: DriverInfo) -> None:
        """Let a driver of `csi` register, or say something else of itself."""
        self.reconciler.post(DriverDeclared(info))
        self.settle()

    def withdraw(self, name: str) -> None:
        """Let a driver of `csi` be registered no more."""
        self.reconciler.post(DriverWithdrawn(name))
        self.settle()

    def mounts_changed(self) -> None:
        """Say that the mount table changed, and let the debounce pass."""
        self.reconciler.mounts_changed()
        self.advance(self.config.mount_table_debounce)

    def mounts(self, selector: str, container: str = "") -> MountsReport:
        """Prepare and give what containers are to be given, as `volmgr mounts` does; raises what the server would."""
        preparation = Preparation(selector, container, capacity(self.host))
        self.reconciler.post(Ask(lambda: self.reconciler.preparations.begin(preparation)))
        self.settle()
        self.reconciler.preparations.give_up(preparation)
        return preparation.result()

    # --- time ---

    def step(self) -> bool:
        """Let the reconciler take a step and run one chore; False when there was none."""
        self.reconciler.step()
        if not self._chores:
            return False
        chore = self._chores.pop(self.choose(len(self._chores)))
        message = chore()
        if isinstance(self.host, FaultHost) and self.host.dead:
            raise Killed  # whoever caught it on the way was killed, too
        self.reconciler.post(message)
        return True

    def settle(self) -> None:
        """Run everything that can run now."""
        while self.step():
            pass

    def advance(self, seconds: float) -> None:
        """Let time pass, with everything that is due on the way."""
        end = self.now + seconds
        while (due := self.reconciler.timers.next_due()) is not None and due <= end:
            self.now = max(self.now, due)
            self.settle()
        self.now = end
        self.settle()

    # --- what can be asked ---

    def is_mounted(self, selector: str) -> bool:
        """Say whether `wait --for mounted` would return."""
        return is_mounted(self.world, selector)

    def is_unmounted(self, selector: str) -> bool:
        """Say whether `wait --for unmounted` would return."""
        return is_unmounted(self.world, selector)

    def wait(self, selector: str, condition: Callable[[World, str], bool]) -> Waiter:
        """Subscribe as a waiting client does; its `done` is set when the condition holds."""
        waiter = Waiter(selector, condition)
        self.reconciler.waiters.add(waiter)
        return waiter

    def warnings(self) -> tuple[str, ...]:
        """Give the texts of all warning events so far."""
        return tuple(event.message for event in self.world.events.after(0) if event.severity == "Warning")


def _origin(document: Mapping[str, Any]) -> str:
    metadata = document["metadata"]
    return "/".join((document["kind"], metadata.get("namespace", "default"), metadata["name"]))


def pod(
    name: str,
    *volumes: Mapping[str, Any],
    uid: str = "",
    devices: Iterable[str] = (),
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,  # noqa: ANN401 - further fields of the Pod's spec
) -> dict[str, Any]:
    """Give the manifest of a Pod with one container that uses every volume (as device those named in `devices`)."""
    mapped = set(devices)
    used = [str(volume["name"]) for volume in volumes]
    container = {
        "name": "main",
        "volumeMounts": [{"name": each, "mountPath": f"/{each}"} for each in used if each not in mapped],
        "volumeDevices": [{"name": each, "devicePath": f"/dev/{each}"} for each in used if each in mapped],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **({"uid": uid} if uid else {}), **(metadata or {})},
        "spec": {"containers": [container], "volumes": [dict(volume) for volume in volumes], **spec},
        **({"status": dict(status)} if status else {}),
    }
