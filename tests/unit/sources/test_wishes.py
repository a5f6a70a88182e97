"""Which free volume fits which wish: what is remembered says the same as testing all anew, in far fewer tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from cProfile import Profile
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.unit.sources.claim_bench import ClaimBench, Document, pv, pvc
from volmgr import pairing
from volmgr.manifest import parse
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import Node, PersistentVolumeClaim
from volmgr.model.volume import PersistentVolume
from volmgr.sources.wishes import Wish, Wishes

MANY = 60
VOLUMES = st.sampled_from([f"v{index}" for index in range(6)])
CLAIMS = st.sampled_from([f"c{index}" for index in range(4)])
SIZES = st.sampled_from(["1Gi", "2Gi", "3Gi"])
CLASSES = st.sampled_from(["", "gold"])
MODES = st.lists(st.sampled_from(["ReadWriteOnce", "ReadOnlyMany"]), min_size=1, unique=True)
VALUES = st.sampled_from(["a", "b"])
LABELS = st.dictionaries(st.sampled_from(["x", "y"]), VALUES)
EXPRESSIONS = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["x", "y"]),
        "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Unheard"]),
        "values": st.lists(VALUES, max_size=3),
    }
)
SELECTORS = st.fixed_dictionaries(
    {}, optional={"matchLabels": LABELS, "matchExpressions": st.lists(EXPRESSIONS, max_size=2)}
)
ZONES = st.sampled_from(["", "north", "south"])


class Remembered(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.wishes = Wishes(kept=0)
        self.node: Node | None = None
        self.free: dict[str, PersistentVolume] = {}
        self.waiting: dict[ObjectRef, tuple[PersistentVolumeClaim, str]] = {}

    def fits(self, claim: PersistentVolumeClaim, storage_class: str, name: str) -> bool:
        return not pairing.mismatch(claim, self.free[name], storage_class, self.node)

    @rule(name=VOLUMES, size=SIZES, storage_class=CLASSES, modes=MODES, labels=LABELS, zone=ZONES)
    def offer(self, name: str, **drawn: Any) -> None:  # noqa: ANN401 - as the strategies draw
        self.free[name] = volume(name, **drawn)
        self.wishes.offer(self.free[name])

    @rule(name=VOLUMES)
    def withdraw(self, name: str) -> None:
        self.free.pop(name, None)
        self.wishes.withdraw(name)

    @rule(name=CLAIMS, size=SIZES, storage_class=CLASSES, modes=MODES, selector=SELECTORS)
    def look(self, name: str, size: str, storage_class: str, modes: list[str], selector: Document) -> None:
        self.find(claim(name, size, modes, selector), storage_class)

    def find(self, item: PersistentVolumeClaim, storage_class: str) -> None:
        wish, size = Wish.of(item, storage_class), pairing.asked(item)
        expected = min(
            ((pv.size, name) for name, pv in self.free.items() if self.fits(item, storage_class, name)),
            default=(0, ""),
        )
        assert self.wishes.smallest(wish, size) == expected[1]
        ref = ObjectRef("PersistentVolumeClaim", "default", item.metadata.name)
        self.wishes.leave(ref)
        self.waiting.pop(ref, None)
        if not expected[1]:
            self.wishes.wait(ref, wish, size)
            self.waiting[ref] = item, storage_class

    @rule(zone=st.sampled_from(["north", "south"]), known=st.booleans())
    def move(self, zone: str, *, known: bool) -> None:
        self.node = node(zone) if known else None
        self.wishes.judge(self.node)
        for item, storage_class in tuple(self.waiting.values()):
            self.find(item, storage_class)

    @rule()
    def tidy(self) -> None:
        self.wishes.tidy()

    @invariant()
    def each_volume_goes_to_who_asks_for_most(self) -> None:
        for name in self.free:
            takers = [
                (-pairing.asked(item), ref)
                for ref, (item, storage_class) in self.waiting.items()
                if self.fits(item, storage_class, name)
            ]
            assert self.wishes.taker(name) == min(takers, default=(0, None))[1]


Remembered.TestCase.settings = settings(max_examples=80, stateful_step_count=30)
TestRemembered = Remembered.TestCase


def volume(
    name: str, *, size: str, storage_class: str, modes: list[str], labels: Document, zone: str
) -> PersistentVolume:
    spec: Document = {"storageClassName": storage_class}
    if zone:
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return one(PersistentVolume, pv(name, size, *modes, metadata={"labels": labels}, **spec))


def claim(name: str, size: str, modes: list[str], selector: Document) -> PersistentVolumeClaim:
    return one(PersistentVolumeClaim, pvc(name, size, *modes, selector=selector))


def node(zone: str) -> Node:
    return one(Node, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"zone": zone}}})


T = TypeVar("T")


def one(kind: type[T], document: Document) -> T:
    (item,) = parse(json.dumps(document).encode(), "").items
    assert isinstance(item.value, kind)
    return item.value


# --- how much is tested ---


Made = Callable[[int], Document]


def plain(index: int) -> Document:
    return pv(f"v{index}")


def labelled(index: int) -> Document:
    return pv(f"v{index}", metadata={"labels": {"app": "db", "slot": str(index)}})


def anything(index: int) -> Document:
    return pvc(f"c{index}")


def shared(index: int) -> Document:
    return pvc(f"c{index}", "1Gi", "ReadWriteMany")


def larger(index: int) -> Document:
    return pvc(f"c{index}", f"{index + 2}Gi")


def own(index: int) -> Document:
    return pvc(f"c{index}", selector={"matchLabels": {"app": "db", "slot": str(index)}})


def nowhere(index: int) -> Document:
    return pvc(f"c{index}", selector={"matchLabels": {"app": "db", "slot": f"no-{index}"}})


def other(index: int) -> Document:
    return pvc(f"c{index}", selector={"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]})


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["volumes first", "claims first"])
@pytest.mark.parametrize(
    ("volumes", "claims", "bound", "most"),
    [
        (plain, shared, 0, MANY),
        (plain, larger, 0, MANY),
        (plain, anything, MANY, MANY),
        (labelled, other, 0, MANY),
        (labelled, nowhere, 0, MANY),
        (labelled, own, MANY, 2 * MANY),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_each_volume_is_tested_once_for_each_wish_that_its_labels_lead_to(
    order: tuple[int, int],
    volumes: Made,
    claims: Made,
    bound: int,
    most: int,
) -> None:
    bench = ClaimBench()
    files = [volumes(index) for index in range(MANY)], [claims(index) for index in range(MANY)]
    with Profile() as profile:
        for part in order:
            bench.offer(f"file-{part}", *files[part])
    assert sum(bench.state(f"c{index}")[0] == "Bound" for index in range(MANY)) == bound
    tests = sum(entry.callcount for entry in profile.getstats() if entry.code is pairing.mismatch.__code__)
    assert bound <= tests <= most


def test_a_wish_that_somebody_waits_with_is_kept_when_the_others_become_too_many() -> None:
    wishes = Wishes(kept=0)
    ref = ObjectRef("PersistentVolumeClaim", "default", "c0")
    waiting = Wish.of(one(PersistentVolumeClaim, anything(0)), "")
    assert not wishes.smallest(waiting, 1)
    wishes.wait(ref, waiting, 1)
    for index in range(3):
        wishes.smallest(Wish.of(one(PersistentVolumeClaim, own(index)), ""), 1)
    wishes.tidy()
    wishes.offer(one(PersistentVolume, labelled(1)))
    assert wishes.taker("v1") == ref
    assert wishes.smallest(Wish.of(one(PersistentVolumeClaim, own(1)), ""), 1) == "v1", "learned anew"
