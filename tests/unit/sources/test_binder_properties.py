"""Whatever comes, goes, fails and is killed: a volume has one claim, pairs stay, choices are the smallest that fit."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.unit.sources.claim_bench import ClaimBench, Document, asking, pv, pvc, user
from volmgr import pairing
from volmgr.errors import OperationError
from volmgr.model.objects import PersistentVolumeClaim
from volmgr.model.volume import PersistentVolume
from volmgr.sources.offers import ConflictError
from volmgr.testing import FakeHost, Fault, FaultHost, Killed, When

VOLUMES = ("v1", "v2", "v3", "v4")
CLAIMS = ("c1", "c2", "c3")
SIZES = st.sampled_from(["1Gi", "2Gi", "3Gi"])
CLASSES = st.sampled_from(["", "gold"])
MODES = st.sampled_from([["ReadWriteOnce"], ["ReadWriteOnce"], ["ReadWriteOnce", "ReadWriteMany"]])
TIERS = st.sampled_from(["", "", "fast", "slow"])
SELECTORS: st.SearchStrategy[Document | None] = st.sampled_from(
    [
        None,
        None,
        {"matchLabels": {"tier": "fast"}},
        {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["fast", "slow"]}]},
        {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["fast"]}]},
    ]
)


class Pairs(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disk = FakeHost()
        self.faults = FaultHost(self.disk)
        self.files: dict[str, Document] = {}
        self.pods: dict[str, Document] = {}
        self.bench = ClaimBench(self.faults)
        self.pairs: dict[str, tuple[str, str]] = {}
        """By claim: its UID and volume while both were there all the time."""
        self.given_up: set[str] = set()
        """Volumes that are Released for good."""

    def restart(self) -> None:
        self.faults = FaultHost(self.disk)
        self.bench = ClaimBench(self.faults, read=False)
        for name, document in self.files.items():
            self.bench.offer(name, document)
        self.bench.read()

    def act(self, name: str) -> None:
        """Let one file be as it is now; the daemon may be killed meanwhile."""
        try:
            if name in self.files:
                self.bench.offer(name, self.files[name])
            else:
                self.bench.remove(name)
        except Killed:
            self.restart()

    @rule(name=st.sampled_from(VOLUMES), size=SIZES, storage_class=CLASSES, modes=MODES, tier=TIERS)
    def add_volume(self, name: str, size: str, storage_class: str, modes: list[str], tier: str) -> None:
        metadata = {"labels": {"tier": tier}} if tier else None
        self.files[name] = pv(name, size, *modes, metadata=metadata, storageClassName=storage_class)
        self.act(name)

    @rule(name=st.sampled_from(VOLUMES), claim=st.sampled_from(CLAIMS))
    def reserve_volume(self, name: str, claim: str) -> None:
        self.files[name] = pv(name, "2Gi", claimRef={"namespace": "default", "name": claim})
        self.act(name)

    @rule(name=st.sampled_from(CLAIMS), size=SIZES, storage_class=CLASSES, uid=st.sampled_from(["", "", "", "other"]))
    def add_claim(self, name: str, size: str, storage_class: str, uid: str) -> None:
        metadata = {"uid": f"{uid}-{name}"} if uid else None
        self.write_claim(name, pvc(name, size, metadata=metadata, storageClassName=storage_class))

    @rule(name=st.sampled_from(CLAIMS), size=SIZES, modes=MODES, selector=SELECTORS)
    def add_choosy_claim(self, name: str, size: str, modes: list[str], selector: Document | None) -> None:
        self.write_claim(name, pvc(name, size, *modes, **({"selector": selector} if selector else {})))

    def write_claim(self, name: str, document: Document) -> None:
        self.files[name] = document
        known = self.pairs.get(name)
        self.act(name)
        if known is not None and self.bench.claim(name).metadata.uid != known[0]:
            self.pairs.pop(name, None)

    @rule(name=st.sampled_from([*VOLUMES, *CLAIMS]))
    def remove(self, name: str) -> None:
        self.files.pop(name, None)
        if name in CLAIMS:
            self.pairs.pop(name, None)
        else:
            self.pairs = {claim: pair for claim, pair in self.pairs.items() if pair[1] != name}
            self.given_up.discard(name)
        self.act(name)

    @rule(name=st.sampled_from(["a", "b"]), claim=st.sampled_from([*CLAIMS, "-"]))
    def run_pod(self, name: str, claim: str) -> None:
        if name in self.pods:
            return
        document = user(name, ephemeral=asking()) if claim == "-" else user(name, claim)
        self.pods[name] = document
        try:
            self.bench.post(document)
        except Killed:
            self.disk.disk_full = False
            self.restart()
            with suppress(ConflictError):
                self.bench.post(document)
        except (ConflictError, OperationError):
            del self.pods[name]

    @rule(name=st.sampled_from(["a", "b"]))
    def end_pod(self, name: str) -> None:
        if self.pods.pop(name, None) is None:
            return
        self.disk.disk_full = False
        self.pairs.pop(f"{name}-scratch", None)
        try:
            self.bench.end(f"uid-{name}")
        except Killed:
            self.restart()
            self.bench.end(f"uid-{name}")

    @rule(name=st.sampled_from(VOLUMES))
    def release(self, name: str) -> None:
        self.given_up.discard(name)
        try:
            self.bench.registry.release(name)
        except Killed:
            self.restart()
        except (KeyError, OperationError):
            pass

    @rule()
    def kill(self) -> None:
        self.restart()

    @rule(at=st.integers(1, 3), when=st.sampled_from(When))
    def kill_soon(self, at: int, when: When) -> None:
        done = self.faults.verbs.count("files.write")
        self.faults.faults = [Fault.kill(done + at, when, verb="files.write")]

    @rule()
    def fill_disk(self) -> None:
        self.disk.disk_full = True

    @precondition(lambda self: self.disk.disk_full)
    @rule()
    def make_room(self) -> None:
        self.disk.disk_full = False
        try:
            self.bench.registry.retry()
        except Killed:
            self.restart()

    # --- what must be so ---

    def known(self) -> tuple[dict[str, PersistentVolumeClaim], dict[str, PersistentVolume]]:
        items = [change.item for change in self.bench.known.values()]
        claims = {item.metadata.name: item for item in items if isinstance(item, PersistentVolumeClaim)}
        return claims, {item.metadata.name: item for item in items if isinstance(item, PersistentVolume)}

    @invariant()
    def a_volume_and_a_claim_say_the_same_of_each_other(self) -> None:
        claims, volumes = self.known()
        bound = {name: claim for name, claim in claims.items() if claim.phase in {"Bound", "Lost"}}
        assert len({claim.volume_name for claim in bound.values()}) == len(bound)
        for name, claim in bound.items():
            if claim.phase == "Lost":
                assert claim.volume_name not in volumes
                continue
            owner = volumes[claim.volume_name].claim_ref
            assert volumes[claim.volume_name].phase == "Bound"
            assert owner is not None
            assert (owner.name, owner.uid) == (name, claim.metadata.uid)
        for name, volume in volumes.items():
            if volume.phase == "Bound":
                assert volume.claim_ref is not None
                assert claims[volume.claim_ref.name].volume_name == name

    @invariant()
    def a_pair_stays_while_both_are_there(self) -> None:
        claims, _ = self.known()
        for name, (uid, volume) in self.pairs.items():
            assert name in claims, f"{name} went by itself"
            now = claims[name]
            assert (now.metadata.uid, now.volume_name, now.phase) == (uid, volume, "Bound"), name
        self.pairs = {
            name: (claim.metadata.uid, claim.volume_name) for name, claim in claims.items() if claim.phase == "Bound"
        }

    @invariant()
    def what_is_released_stays_released(self) -> None:
        _, volumes = self.known()
        assert self.given_up <= {name for name, volume in volumes.items() if volume.phase == "Released"}
        self.given_up |= {
            name
            for name, volume in volumes.items()
            if volume.phase == "Released" and self.bench.record(name).get("released") is True
        }

    @invariant()
    def nobody_waits_for_what_is_there(self) -> None:
        if self.disk.disk_full:
            return
        if self.faults.faults and not self.faults.dead:
            return
        claims, volumes = self.known()
        free = [volume for volume in volumes.values() if volume.phase == "Available"]
        for claim in claims.values():
            if claim.phase == "Pending" and "recorded" not in claim.message:
                fitting = [
                    volume.metadata.name
                    for volume in free
                    if not pairing.mismatch(claim, volume, claim.storage_class_name or "", None)
                ]
                assert fitting == [], claim.metadata.name


class Choices(RuleBasedStateMachine):
    """Without anything that hinders it: each choice is the smallest of what was free then."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = ClaimBench()
        self.free: dict[str, int] = {}
        self.count = 0

    @rule(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4))
    def offer_volumes(self, sizes: list[int]) -> None:
        self.count += 1
        names = {f"v{self.count}-{index}": size for index, size in enumerate(sizes)}
        self.free |= names
        self.bench.offer(f"v{self.count}", *(pv(name, f"{size}Gi") for name, size in names.items()))
        self.check()

    @rule(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4))
    def offer_claims(self, sizes: list[int]) -> None:
        self.count += 1
        documents = [pvc(f"c{self.count}-{index}", f"{size}Gi") for index, size in enumerate(sizes)]
        self.bench.offer(f"c{self.count}", *documents)
        self.check()

    def check(self) -> None:
        taken: list[tuple[int, int]] = []
        for name in list(self.free):
            phase, claim = self.bench.owner(name)
            if phase == "Bound":
                size = self.free.pop(name)
                taken.append((pairing.asked(self.bench.claim(claim)) >> 30, size))
        for asked, size in taken:
            assert asked <= size
            assert not [other for other in self.free.values() if asked <= other < size]


Pairs.TestCase.settings = settings(max_examples=120, stateful_step_count=25)
Choices.TestCase.settings = settings(max_examples=60, stateful_step_count=12)
TestPairs = Pairs.TestCase
TestChoices = Choices.TestCase
