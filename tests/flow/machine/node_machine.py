"""A node under everything that can happen to it: Pods, faults, kills, restarts, reboots, other people.

The machine knows what was asked for (`offers`) and what users wrote (`written`), and nothing of how volmgr works.
`calm_down` lifts every fault; then the machine below must be exactly what the Pods that are there ask for.
"""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.flow.machine.sites import Site
from volmgr.errors import OperationError
from volmgr.model.names import escape
from volmgr.operations import Verb
from volmgr.plugin import VolumePlugin
from volmgr.plugins import Plugins
from volmgr.report.world import Hold
from volmgr.sources.offers import ConflictError
from volmgr.testing import Fault, FaultHost, Killed, When
from volmgr.testing.node import FILES, TestNode, plugins_of, pod
from volmgr_emptydir.plugin import EmptyDir
from volmgr_hostpath.plugin import HostPath

T = TypeVar("T")

EMPTY_DIR = escape("kubernetes.io/empty-dir")
CALM = 125.0
"""Seconds; longer than the longest back-off."""
API_SLOTS = ("a0", "a1")
FILE_SLOTS = ("f0", "f1")
SETS = ("disk", "memory", "both", "host", "late", "all")
DISK_VOLUMES: dict[str, tuple[str, ...]] = {
    "disk": ("cache",),
    "both": ("cache",),
    "late": ("cache",),
    "all": ("cache", "more"),
}
MEMORY_VOLUMES: dict[str, tuple[str, ...]] = {"memory": ("mem",), "both": ("mem",), "all": ("mem",)}

slots = st.sampled_from((*API_SLOTS, *FILE_SLOTS))
sides = st.sampled_from(When)


@dataclass(frozen=True)
class Wish:
    """What a client asks for: a Pod of one of four names, of one of two UIDs of that name, with a set of volumes."""

    slot: str
    generation: int
    volumes: str
    label: int = 0
    finished: bool = False
    terminating: bool = False

    @property
    def uid(self) -> str:
        return f"uid-{self.slot}-{self.generation}"

    @property
    def lives(self) -> bool:
        return not self.finished and not self.terminating

    def manifest(self, top: Path) -> dict[str, Any]:
        metadata: dict[str, Any] = {"labels": {"volumes": self.volumes, "label": str(self.label)}}
        if self.terminating:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        status = {"phase": "Succeeded"} if self.finished else None
        return pod(self.slot, *_volumes(self, top), uid=self.uid, metadata=metadata, status=status)


def _volumes(wish: Wish, top: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"name": name, "emptyDir": {}} for name in DISK_VOLUMES.get(wish.volumes, ())]
    memory = {"medium": "Memory", "sizeLimit": "1Mi"}
    found += [{"name": name, "emptyDir": memory} for name in MEMORY_VOLUMES.get(wish.volumes, ())]
    if wish.volumes in {"host", "all"}:
        made, file = str(top / f"made-{wish.slot}"), str(top / f"file-{wish.slot}")
        found.append({"name": "dir", "hostPath": {"path": made, "type": "DirectoryOrCreate"}})
        found.append({"name": "file", "hostPath": {"path": file, "type": "FileOrCreate"}})
        found.append({"name": "any", "hostPath": {"path": str(top)}})
    if wish.volumes == "late":
        found.append({"name": "late", "hostPath": {"path": str(top / "late"), "type": "Directory"}})
    return found


class SlowNode(TestNode):
    """A node whose workers may stand still: what was begun stays under way."""

    slow = False

    def settle(self) -> None:
        if self.slow:
            self.reconciler.step()
        else:
            super().settle()


@dataclass
class Offers:
    """What each client wants now."""

    wishes: dict[str, Wish] = field(default_factory=dict[str, Wish])
    """By slot: what is to be there in the end."""
    files: dict[str, Wish | None] = field(default_factory=dict[str, Wish | None])
    """By slot: what the file says; None is text that is no manifest."""


class NodeMachine(RuleBasedStateMachine):
    """Drives one node on one machine; subclasses say which."""

    def __init__(self) -> None:
        super().__init__()
        self.site = self.make_site()
        self.top = self.site.top
        self.offers = Offers()
        self.written: dict[Path, tuple[str, bytes]] = {}
        """What users wrote into volumes that must keep it: path to UID and content."""
        self.foreign: dict[Path, str] = {}
        """Mounts that others made below volumes: path to UID."""
        self.may_go: set[Path] = set()
        """Mounts of others that go with their volume, unless its Pod returns before that."""
        self.strays: dict[str, Path] = {}
        """Files that others put into Pods' directories, by UID."""
        self.holds: list[Hold] = []
        self.is_ready = False
        self.disturbed = False
        """Faults or a bad disk may have kept something from being recorded."""
        self.shaky: set[str] = set()
        """Slots of the API at which a replacement failed half-way: a kill before the disk is well costs the old Pod."""
        self.has_late = False
        self.types = frozenset({"emptyDir", "hostPath"})
        self.random = random.Random(0)
        self.site.mkdir(self.top / "precious")
        self.site.put(self.top / "precious" / "data", b"of others")
        self.host = FaultHost(self.site.host())
        self.checked = 0
        self.node = SlowNode(self.host, self._plugins(), sources=("api", FILES), choose=self._choose)
        self.before = frozenset[Path]()
        self.unmounting = frozenset[Path]()
        self._sources_read()

    def make_site(self) -> Site:
        raise NotImplementedError

    def teardown(self) -> None:
        self.calm_down(restart=True)

    @initialize(seed=st.integers(0, 1 << 16), sets=st.tuples(*[st.sampled_from(SETS)] * 4))
    def begin(self, seed: int, sets: tuple[str, ...]) -> None:
        self.random = random.Random(seed)
        for slot, volumes in zip((*API_SLOTS, *FILE_SLOTS), sets, strict=True):
            self._offer(Wish(slot, 0, volumes))

    def _choose(self, count: int) -> int:
        return self.random.randrange(count)

    def _plugins(self) -> Plugins:
        known: dict[str, VolumePlugin[Any]] = {"emptyDir": EmptyDir(), "hostPath": HostPath()}
        return plugins_of(*[known[name] for name in sorted(self.types)])

    # --- the life of the daemon ---

    def _attempt(self, action: Callable[[], T]) -> T:
        """Do something as a client does, who tries again after the daemon was killed."""
        try:
            return action()
        except Killed:
            self._restart()
            return action()

    def _restart(self, *, read: bool = True, host: FaultHost | None = None) -> None:
        self.host = host or FaultHost(self.site.host())
        self.checked = 0
        self.node.host = self.host
        self.node.plugins = self._plugins()
        self.node.slow = False
        self.is_ready = False
        self.unmounting = frozenset[Path]()
        try:
            self.node.start()
        except OperationError:  # as with systemd: it is started again, and again
            assert self.disturbed
            self.host.faults.clear()
            self.site.fill_disk(full=False)
            self.site.set_read_only(read_only=False)
            self.node.start()
        held = {hold.id for hold in self.holds if hold.pid in self.node.processes}
        self.node.settle()
        self.holds = [hold for entry in self.node.world.pods.values() for hold in entry.holds.values()]
        assert held <= {hold.id for hold in self.holds}, "a hold of a living process survives a restart"
        for slot in self.shaky & set(self.offers.wishes):
            if self._standing(self.offers.wishes[slot].uid) is None:
                del self.offers.wishes[slot]
                self._drop_what_may_go()
        self.shaky.clear()
        if read:
            self._sources_read()

    def _sources_read(self) -> None:
        """Let the directory be read whole, as its source does at start."""
        for slot in FILE_SLOTS:
            self._read_file(slot)
        self.node.sources_ready()
        self.is_ready = True

    def _read_file(self, slot: str) -> None:
        name = f"{slot}.yaml"
        if slot not in self.offers.files:
            self.node.remove_file(name)
            return
        wish = self.offers.files[slot]
        if wish is None:
            self.node.put_file(name, text="{ this is: no manifest")
        else:
            self.node.put_file(name, wish.manifest(self.top))

    @rule(read=st.booleans())
    def restart(self, *, read: bool) -> None:
        self._restart(read=read)

    @rule(at=st.integers(1, 40), side=sides)
    def killed_while_starting(self, at: int, side: When) -> None:
        host = FaultHost(self.site.host(), [Fault.kill(at, side)])
        try:
            self._restart(host=host)
        except Killed:
            self._restart()
        else:
            host.faults.clear()

    @rule(at=st.integers(1, 25), side=sides)
    def will_be_killed(self, at: int, side: When) -> None:
        self.host.faults.append(Fault.kill(len(self.host.trace) + at, side))

    @rule(at=st.integers(1, 12), times=st.integers(1, 4))
    def calls_will_fail(self, at: int, times: int) -> None:
        self.disturbed = True
        fault = Fault(len(self.host.trace) + at, OperationError("no space left on device"), times=times)
        self.host.faults.append(fault)

    @rule(read=st.booleans())
    def reboot(self, *, read: bool) -> None:
        self.site.reboot()
        self.node.processes.clear()
        self.holds.clear()
        self.foreign.clear()
        self._lose_memory(lambda _path: True)
        self._drop_what_may_go()
        self._restart(read=read)

    @rule()
    def sources_are_read(self) -> None:
        self._attempt(self._sources_read)

    @rule()
    def source_is_lost(self) -> None:
        self._attempt(lambda: self.node.source_lost(FILES, "the directory is gone"))
        self.is_ready = False

    @precondition(lambda self: not self.disturbed)
    @rule(types=st.sampled_from(("emptyDir", "hostPath", "")))
    def packages_change(self, types: str) -> None:
        self.types = frozenset({types} - {""})
        self._restart()

    @rule()
    def packages_return(self) -> None:
        if len(self.types) < 2:
            self.types = frozenset({"emptyDir", "hostPath"})
            self._restart()

    @rule(chores=st.integers(0, 4))
    def workers_are_slow(self, chores: int) -> None:
        self.node.slow = True
        self._attempt(lambda: [self.node.step() for _ in range(chores)])

    @rule()
    def workers_go_on(self) -> None:
        self.node.slow = False
        self._attempt(self.node.settle)

    @rule(seconds=st.sampled_from((0.3, 1.0, 5.0, 130.0)))
    def time_passes(self, seconds: float) -> None:
        self._attempt(lambda: self.node.advance(seconds))

    @rule(full=st.booleans())
    def disk_fills(self, *, full: bool) -> None:
        self.disturbed = self.disturbed or full
        self.site.fill_disk(full=full)

    @rule(read_only=st.booleans())
    def disk_turns_read_only(self, *, read_only: bool) -> None:
        self.disturbed = self.disturbed or read_only
        self.site.set_read_only(read_only=read_only)

    # --- Pods ---

    @rule(
        slot=slots,
        generation=st.integers(0, 1),
        volumes=st.sampled_from(SETS),
        label=st.integers(0, 2),
    )
    def offer(self, slot: str, generation: int, volumes: str, label: int) -> None:
        self._offer(Wish(slot, generation, volumes, label))

    @rule(slot=slots, volumes=st.sampled_from(SETS))
    def offer_again(self, slot: str, volumes: str) -> None:
        self._offer(Wish(slot, 0, volumes))

    @rule(slot=slots, label=st.integers(0, 3), end=st.sampled_from(("finished", "terminating", "", "")))
    def change(self, slot: str, label: int, end: str) -> None:
        wish = self.offers.wishes.get(slot)
        if wish is not None:
            self._offer(replace(wish, label=label, finished=end == "finished", terminating=end == "terminating"))

    def _offer(self, wish: Wish) -> None:
        standing = self._standing(wish.uid)
        refused = standing is not None and standing.volumes != wish.volumes
        if wish.slot in FILE_SLOTS:
            self.offers.files[wish.slot] = wish
            self._attempt(lambda: self._read_file(wish.slot))
        else:
            try:
                self._attempt(lambda: self._apply(wish))
            except ConflictError:
                assert refused or self.disturbed, "a Pod that is right and in nobody's way is accepted"
                refused = True
            except OperationError:
                assert self.disturbed
                self.shaky.add(wish.slot)
                return
        if not refused:
            self.offers.wishes[wish.slot] = wish
        elif wish.slot in FILE_SLOTS and standing is not None:
            self.offers.wishes[wish.slot] = standing
        self._drop_what_may_go()

    def _apply(self, wish: Wish) -> None:
        self.node.apply(wish.manifest(self.top))

    def _standing(self, uid: str) -> Wish | None:
        """Say as what a Pod stands now, if it has not left."""
        entry = self.node.world.pods.get(uid)
        if entry is None or entry.leaving:
            return None
        meta = entry.pod.metadata
        return Wish(
            slot=meta.name,
            generation=int(uid[-1]),
            volumes=meta.labels["volumes"],
            label=int(meta.labels["label"]),
            finished=entry.pod.is_finished,
            terminating=bool(meta.deletion_timestamp),
        )

    @precondition(lambda self: not self.disturbed)
    @rule(slot=st.sampled_from(FILE_SLOTS))
    def file_turns_invalid(self, slot: str) -> None:
        if slot in self.offers.files:
            self.offers.files[slot] = None
            self._attempt(lambda: self._read_file(slot))

    @rule(slot=slots)
    def remove(self, slot: str) -> None:
        if slot in FILE_SLOTS:
            self.offers.files.pop(slot, None)
            self._attempt(lambda: self._read_file(slot))
        elif slot in self.offers.wishes:
            try:
                self._attempt(lambda: self._delete(slot))
            except OperationError:
                assert self.disturbed
                return
        self.offers.wishes.pop(slot, None)
        self._drop_what_may_go()

    def _delete(self, slot: str) -> None:
        for generation in (0, 1):
            self.node.delete(f"uid-{slot}-{generation}")

    # --- processes and users ---

    @rule(slot=slots, pid=st.integers(100, 102))
    def hold(self, slot: str, pid: int) -> None:
        wish = self.offers.wishes.get(slot)
        if wish is not None and wish.uid in self.node.world.pods:
            with suppress(OperationError):
                hold = self._attempt(lambda: self.node.hold(wish.uid, pid))
                self.holds = [*(other for other in self.holds if other.id != hold.id), hold]

    @precondition(lambda self: self.holds)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        pid = data.draw(st.sampled_from(sorted({hold.pid for hold in self.holds})))
        for hold in [each for each in self.holds if each.pid == pid]:
            try:
                self._attempt(partial(self.node.release, hold))
            except OperationError:
                assert self.disturbed
            else:
                self.holds = [each for each in self.holds if each.id != hold.id]
        self._drop_what_may_go()

    @precondition(lambda self: not self.node.slow)
    @rule(number=st.integers(0, 2))
    def users_write(self, number: int) -> None:
        mounted = [each for each in self.offers.wishes.values() if each.lives and self.node.is_mounted(each.uid)]
        for wish, path in [(each, path) for each in mounted for path in self._paths(each)]:
            target, content = path / f"file-{number}", f"{self.random.random()}".encode()
            if self.site.put(target, content):
                self.written[target] = (wish.uid, content)
            else:
                self.written.pop(target, None)

    def _paths(self, wish: Wish) -> list[Path]:
        """Give the directories of a Pod's emptyDirs."""
        names = (*DISK_VOLUMES.get(wish.volumes, ()), *MEMORY_VOLUMES.get(wish.volumes, ()))
        return [self._volume(wish.uid, name) for name in names]

    def _volume(self, uid: str, name: str) -> Path:
        return self.host.paths.volumes(uid) / EMPTY_DIR / name

    @rule(slot=slots)
    def stray_file_is_put(self, slot: str) -> None:
        wish = self.offers.wishes.get(slot)
        if wish is not None and self.site.names(self.host.paths.pod(wish.uid)):
            path = self.host.paths.pod(wish.uid) / "stray"
            if self.site.put(path, b"stray"):
                self.strays[wish.uid] = path

    @rule()
    def late_directory_appears(self) -> None:
        self.has_late = self.site.mkdir(self.top / "late") or self.has_late

    # --- other people's mounts ---

    def _a_mounted(self, slot: str, sets: dict[str, tuple[str, ...]]) -> Path | None:
        """Give a volume of these sets that is mounted for a living Pod."""
        wish = self.offers.wishes.get(slot)
        if wish is None or not wish.lives or wish.volumes not in sets or not self.node.is_mounted(wish.uid):
            return None
        return self._volume(wish.uid, sets[wish.volumes][0])

    @precondition(lambda self: not self.node.slow)
    @rule(slot=slots, sets=st.sampled_from((DISK_VOLUMES, MEMORY_VOLUMES)))
    def foreign_mount_appears(self, slot: str, sets: dict[str, tuple[str, ...]]) -> None:
        path = self._a_mounted(slot, sets)
        if path is None or path / "foreign" in self.foreign or not self.site.mkdir(path / "foreign"):
            return
        self.site.bind(self.top / "precious", path / "foreign")
        self.foreign[path / "foreign"] = self.offers.wishes[slot].uid
        self._attempt(self.node.mounts_changed)

    @precondition(lambda self: self.foreign)
    @rule(data=st.data())
    def foreign_mount_disappears(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(sorted(self.foreign)))
        del self.foreign[path]
        self.site.unmount(path)
        self._attempt(self.node.mounts_changed)

    @rule(slot=slots)
    def process_keeps_a_mount_busy(self, slot: str) -> None:
        path = self._a_mounted(slot, MEMORY_VOLUMES)
        if path is not None:
            self.site.hold_open(path)

    @rule()
    def process_lets_go(self) -> None:
        self.site.let_go()

    @rule(slot=slots)
    def somebody_unmounts(self, slot: str) -> None:
        path = self._a_mounted(slot, MEMORY_VOLUMES)
        if path is None:
            return
        self.site.let_go()
        self.site.unmount(path)
        self.foreign = {where: uid for where, uid in self.foreign.items() if not where.is_relative_to(path)}
        self._lose_memory(lambda where: where.is_relative_to(path))
        self._attempt(self.node.mounts_changed)

    @rule(slot=slots)
    def somebody_remounts_read_only(self, slot: str) -> None:
        path = self._a_mounted(slot, MEMORY_VOLUMES)
        if path is not None and any(target == path for target, _, _ in self.site.mounts()):
            self.site.remount(path, read_only=True)
            self._attempt(self.node.mounts_changed)

    # --- what must be so ---

    def _lose_memory(self, where: Callable[[Path], bool]) -> None:
        """Expect no file of a Memory volume any more."""
        names = {name for found in MEMORY_VOLUMES.values() for name in found}
        self.written = {
            path: kept for path, kept in self.written.items() if path.parent.name not in names or not where(path)
        }

    def _drop_what_may_go(self) -> None:
        """Expect no file of a Pod any more that may be torn down."""
        held = {hold.pod_uid for hold in self.holds}
        wanted = {path for wish in self.offers.wishes.values() if wish.lives for path in self._paths(wish)}
        self.written = {path: kept for path, kept in self.written.items() if kept[0] in held or path.parent in wanted}
        kept = {path: uid for path, uid in self.foreign.items() if uid in held or path.parent in wanted}
        self.may_go |= set(self.foreign) - set(kept)
        self.foreign = kept

    def _safe(self) -> frozenset[str]:
        """Give the UIDs of which nothing may be taken away: wanted, or held."""
        wanted = {wish.uid for wish in self.offers.wishes.values() if wish.lives}
        return frozenset(wanted | {hold.pod_uid for hold in self.holds})

    @invariant()
    def no_file_of_a_user_is_lost(self) -> None:
        for path, (uid, content) in self.written.items():
            assert self.site.content(path) == content, f"{path} of {uid} is as its user left it"

    @invariant()
    def nothing_of_others_is_touched(self) -> None:
        assert self.site.content(self.top / "precious" / "data") == b"of others"

    @invariant()
    def nothing_of_a_living_pod_is_taken_away(self) -> None:
        calls, self.checked = self.host.trace[self.checked :], len(self.host.trace)
        safe = frozenset(path for uid in self._safe() for path in self._declared(uid))
        kept = (safe & self.before) - self.unmounting
        self.before = safe
        running = self.node.world.running
        uids = {operation.pod_uid for operation in running if operation.verb is Verb.UNMOUNT}
        self.unmounting = frozenset(path for path in safe if any(uid in path.parts for uid in uids))
        for call in calls:
            if call.verb in {"mounts.unmount_below", "files.discard", "files.remove_tree"}:
                assert call.args[0] not in kept, call

    def _declared(self, uid: str) -> list[Path]:
        """Give the emptyDirs of a Pod that is there, or that has left and is held."""
        entry = self.node.world.pods.get(uid)
        if entry is None or (entry.leaving and not entry.holds):
            return []
        return [self._volume(uid, volume.name) for volume in entry.pod.spec.volumes if volume.type == "emptyDir"]

    # --- the end ---

    @rule(restart=st.booleans())
    def calm_down(self, *, restart: bool) -> None:
        """Lift every fault, let time pass, and compare."""
        self.host.faults.clear()
        self.site.fill_disk(full=False)
        self.site.set_read_only(read_only=False)
        self.site.let_go()
        self.node.slow = False
        if restart or self.host.dead or len(self.types) < 2:
            self.types = frozenset({"emptyDir", "hostPath"})
            self._restart()
        for hold in tuple(self.holds):
            self.node.release(hold)
        self.holds.clear()
        self._drop_what_may_go()
        self._sources_read()
        self.node.registry.retry()
        self.node.settle()
        self.node.mounts_changed()
        for _ in range(4):
            self.node.advance(CALM)
        self.disturbed = False
        self._compare(restarted=restart)

    def _compare(self, *, restarted: bool) -> None:
        self.site.settle()
        world, paths = self.node.world, self.host.paths
        assert not world.running
        assert len(world.admission) == 0
        wanted = {wish.uid: wish for wish in self.offers.wishes.values()}
        assert {uid: self._standing(uid) for uid in world.pods} == wanted, "exactly the accepted Pods are there"
        lives = {uid: wish for uid, wish in wanted.items() if wish.lives}
        for uid, wish in lives.items():
            there = self.has_late or wish.volumes != "late"
            assert self.node.is_mounted(uid) == there, f"{wish}: {self.node.warnings()[-3:]}"
            for path in self._paths(wish):
                assert self.site.put(path / "probe", b"")
        memory = [self._volume(uid, name) for uid, w in lives.items() for name in MEMORY_VOLUMES.get(w.volumes, ())]
        mounts = self.site.mounts()
        returned = {path for path in self.may_go if any(path.parent in self._paths(wish) for wish in lives.values())}
        found = [path for path, _, _ in mounts if path in self.foreign or path not in returned]
        assert found == sorted((*memory, *self.foreign)), "mounted is exactly what is wanted"
        assert not [path for path, _, read_only in mounts if read_only and path in memory]
        self._compare_disk(lives)
        assert self.site.names(paths.state / "pods") == sorted(f"{uid}.json" for uid in wanted)
        assert restarted <= (not self.site.names(paths.state / "holds")), "a start clears dead holds away"
        assert self.site.names(paths.trash) == []

    def _compare_disk(self, lives: dict[str, Wish]) -> None:
        paths = self.host.paths
        left = set(self.site.names(paths.pods)) - set(lives)
        assert left <= set(self.strays), f"nothing of gone Pods is on disk: {left}"
        for uid in left:
            assert self.site.names(paths.pod(uid)) == ["stray"]
            assert self.node.world.orphans[str(paths.pod(uid))].pod_uid == uid
        self.strays = {uid: path for uid, path in self.strays.items() if uid in left or uid in lives}
        for path in self.strays.values():
            assert self.site.content(path) == b"stray"
        for uid, wish in lives.items():
            found = self.site.names(paths.volumes(uid) / EMPTY_DIR)
            assert found == sorted(path.name for path in self._paths(wish))
        records = {
            uid for uid in self.site.names(paths.state / "mounts") if self.site.names(paths.state / "mounts" / uid)
        }
        assert set(self.site.names(paths.state / "mounts")) == records == set(lives)
        for uid, wish in lives.items():
            count = len(self.site.names(paths.state / "mounts" / uid))
            volumes = len(_volumes(wish, self.top))
            missing = (
                wish.volumes == "late" and not self.has_late
            )  # perhaps begun before a kill: uncertain until it appears
            assert count == volumes or (missing and count == volumes - 1), wish
