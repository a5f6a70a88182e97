"""Whatever places offer, take away and interrupt: records run ahead, names stay unique, nothing is lost."""

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.unit.sources.test_registry import Bench, item, pod
from volmgr.errors import OperationError
from volmgr.model.pod import Pod
from volmgr.sources.changes import Change, Complaints, PodAccepted, PodLeft
from volmgr.sources.offers import ConflictError

FILES = st.sampled_from(["a", "b", "c"])
PODS = st.builds(
    pod,
    st.sampled_from(["web", "db"]),
    uid=st.sampled_from(["", "u1", "u2"]),
    volume=st.sampled_from(["a", "b"]),
    labels=st.sampled_from([None, {"x": "y"}]),
)


@dataclass
class Known:
    """What the reconciler knows of a Pod."""

    pod: Pod
    origin: str
    leaving: bool = False


class Places(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.world: dict[str, Known] = {}
        self.complaints: dict[str, int] = {}

    def hear(self) -> None:
        for change in self.bench.take():
            self.learn(change)

    def learn(self, change: Change) -> None:
        match change:
            case PodAccepted():
                held = self.world.get(change.pod.uid)
                if held is not None and not held.leaving:
                    assert held.pod.spec.volumes == change.pod.spec.volumes, "a living Pod's volumes changed"
                    assert held.pod.key == change.pod.key
                self.world[change.pod.uid] = Known(change.pod, change.origin)
            case PodLeft():
                self.world[change.uid].leaving = True
            case Complaints():
                self.complaints[change.origin] = len(change.errors)
            case _:
                raise AssertionError(change)

    @rule(file=FILES, documents=st.lists(PODS, max_size=3))
    def offer(self, file: str, documents: list[dict[str, object]]) -> None:
        self.bench.offer(file, *documents)

    @rule(file=FILES)
    def miss(self, file: str) -> None:
        self.bench.registry.retry()  # what left while the disk was full is told now, whatever is missing
        self.hear()
        before = {uid for uid, known in self.world.items() if not known.leaving}
        self.bench.registry.absent("dir", file)
        self.hear()
        assert before <= {uid for uid, known in self.world.items() if not known.leaving}, "a missing file took a Pod"

    @rule(file=FILES)
    def delete_file(self, file: str) -> None:
        self.bench.registry.withdraw("dir", file)

    @rule(document=PODS)
    def post(self, document: dict[str, object]) -> None:
        uid = item(document).value.metadata.uid
        try:
            applied = self.bench.registry.apply(item(document))
        except (ConflictError, OperationError):
            return
        self.hear()
        known = self.world[uid]
        assert known.leaving == (applied.action == "pending")

    @rule(uid=st.sampled_from(["u1", "u2"]))
    def delete(self, uid: str) -> None:
        try:
            found = self.bench.registry.delete(uid)
        except (ConflictError, OperationError):
            return
        self.hear()
        assert found == (uid in self.world)
        if found and not self.world[uid].leaving:
            assert self.world[uid].origin != "api"  # a file that has it too took it over

    @rule(data=st.data())
    def unmounted(self, data: st.DataObject) -> None:
        leaving = sorted(uid for uid, known in self.world.items() if known.leaving)
        if not leaving:
            return
        uid = data.draw(st.sampled_from(leaving))
        del self.world[uid]
        try:
            forgotten = self.bench.registry.forget(uid)
        except OperationError:
            self.bench.host.disk_full = False
            self.bench.host.read_only = False
            forgotten = self.bench.registry.forget(uid)
        assert forgotten

    @rule()
    def kill(self) -> None:
        self.hear()
        known = {uid: (each.pod, each.origin, each.leaving) for uid, each in self.world.items()}
        self.bench = self.bench.restart()
        self.world.clear()
        self.complaints.clear()
        self.hear()
        assert {uid: (each.pod, each.origin, each.leaving) for uid, each in self.world.items()} == known

    @rule(broken=st.booleans())
    def weather(self, broken: bool) -> None:
        self.bench.host.read_only = broken

    @rule()
    def recover(self) -> None:
        self.bench.host.read_only = False
        assert self.bench.registry.retry()

    @invariant()
    def the_world_is_sound(self) -> None:
        self.hear()
        present = [known.pod.key for known in self.world.values() if not known.leaving]
        assert len(present) == len(set(present)), "one name, two present Pods"
        for uid, known in self.world.items():
            record = self.bench.record(uid)
            assert record["standing"] == ("leaving" if known.leaving else "present")


Places.TestCase.settings = settings(max_examples=150, stateful_step_count=30)
TestPlaces = Places.TestCase
