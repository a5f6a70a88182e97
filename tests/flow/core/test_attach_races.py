"""A node and the controller that attaches its disk, in every order of what they do and hear: what is mounted is there.

The controller does as kube-controller-manager's: it takes a disk out of the node's status first, looks then whether it
is in use, and only then detaches. Everybody hears late, and of the node's statuses perhaps only the last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.flow.core.probes import DISK_FACETS, Disk, Script, claim_of, node_item, storage
from tests.flow.core.test_handshake import DISK, MOUNTED, status
from volmgr.config import Config
from volmgr.messages import NodeStatusRead
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod

ROUNDS = 40
"""More than anything that is under way takes, when nothing new comes."""


class Site:
    """A node, an API server that has its status, and a controller. `moves` are what may happen next."""

    def __init__(self) -> None:
        self.script = Script(facets=DISK_FACETS)
        self.node = TestNode(FakeHost(), plugins_of(Disk(self.script)), Config(controller_attach=True, node_name="n1"))
        self.node.sources_ready()
        self.node.put_file("storage.yaml", *storage("d1"))
        self.in_use: tuple[str, ...] = ()
        """What the status on the server says, and how many of the node's lists it knows of."""
        self.lists = 0
        self.listed = ""
        """The path of the disk in the status' volumesAttached; empty: it is not there."""
        self.attached = False
        """What is so, whoever says what."""
        self.times = 0
        self.events = deque[NodeStatusRead]()
        self.heard: tuple[NodeStatusRead, int] | None = None
        """The status that the node heard of last, and how many lists it had told then."""
        self.node_hears = deque(["a", "-a", "b"])
        self.controller_hears = deque(["a", "-a", "b"])
        self.wanted = False
        """What the controller knows: some Pod of this node wants the disk."""
        self.taken_out = False
        self.cleared = False
        """It was taken out of the status, and was not in use then."""
        self.show()

    def moves(self) -> list[Callable[[], object]]:
        """Give what may happen next, always in the same order."""
        found: list[Callable[[], object]] = [self.node.step, self.node.settle, self.show]
        if self.node_hears:
            found.append(self.tell_node)
        if self.lists < len(self.node.in_use):
            found += [self.patch, self.patch_last]
        if self.events:
            found += [self.hear, self.hear_last]
        if self.controller_hears:
            found.append(self.tell_controller)
        if self.wanted != self.attached or self.taken_out:
            found.append(self.control)
        return found

    def show(self) -> None:
        """Let the status be watched as it is now."""
        attached = {DISK: self.listed} if self.listed else {}
        self.events.append(status(attached, self.in_use, reports=self.lists))

    def tell_node(self) -> None:
        """Let the node hear of a Pod that comes or goes."""
        self.told(self.node_hears.popleft())

    def told(self, what: str) -> None:
        if what.startswith("-"):
            self.node.registry.delete(f"u-{what[1:]}")
        else:
            self.node.registry.apply(node_item(self.node, pod(what, claim_of("data", "d1"), uid=f"u-{what}")))

    def patch(self) -> None:
        """Let the next list of volumes in use arrive."""
        self.in_use = self.node.in_use[self.lists]
        self.lists += 1
        self.show()

    def patch_last(self) -> None:
        """Let the last list arrive, instead of all before it."""
        self.in_use, self.lists = self.node.in_use[-1], len(self.node.in_use)
        self.show()

    def hear(self) -> None:
        """Let the node hear of the next status."""
        self.heard = self.events.popleft(), len(self.node.in_use)
        self.node.reconciler.post(self.heard[0])

    def hear_last(self) -> None:
        """Let the node hear of the last status, and never of those before it."""
        while len(self.events) > 1:
            self.events.popleft()
        self.hear()

    def tell_controller(self) -> None:
        """Let the controller hear of a Pod that comes or goes."""
        self.wanted = not self.controller_hears.popleft().startswith("-")

    def control(self) -> None:
        """Let the controller take its next step."""
        if self.cleared:
            self.attached = self.taken_out = self.cleared = False
        elif self.taken_out and DISK in self.in_use:
            self.taken_out = False
            self.list_disk()
        elif self.taken_out:
            self.cleared = True
        elif self.wanted and not self.attached:
            self.attached = True
            self.times += 1
            self.list_disk()
        elif not self.wanted and self.attached:
            self.taken_out = True
            self.listed = ""
            self.show()

    def list_disk(self) -> None:
        self.listed = f"/dev/disk-{self.times}"
        self.show()

    def state(self) -> str:
        """Give all that what happens next depends on."""
        world = self.node.world
        wanted = [(volume.reported_in_use, sorted(volume.mounts)) for volume in world.desired]
        mine = (self.in_use, self.lists, self.listed, self.attached, self.wanted, self.taken_out, self.cleared)
        news = (list(self.node_hears), list(self.controller_hears), list(self.events), self.heard, self.node.in_use)
        return repr((mine, news, wanted, list(world.actual)))

    @property
    def is_mounted(self) -> bool:
        """Whether the device is mounted on the node."""
        return self.script.count("mount_device") > self.script.count("unmount_device")

    @property
    def is_right(self) -> bool:
        """Whether a mounted disk is attached, by the path that it has now."""
        path = self.script.last("mount_device").device_path if self.is_mounted else ""
        return not self.is_mounted or (self.attached and path == f"/dev/disk-{self.times}")

    def begin(self) -> None:
        """Let the first Pod have the disk."""
        self.tell_node()
        self.tell_controller()
        assert self.calm_down()
        assert self.script.calls == MOUNTED

    def calm_down(self) -> bool:
        """Let all that is under way be heard and done; False when it went wrong on the way."""
        right = True
        for _ in range(ROUNDS):
            self.node.settle()
            there = self.moves()
            under_way = [each for each in (self.patch_last, self.hear, self.control) if each in there]
            if not under_way:
                return right
            under_way[0]()
            right = right and self.is_right
        return right  # a controller that has not heard of a Pod takes its disk out of the status again and again

    def play(self, choices: Sequence[int], *, begun: bool) -> None:
        """Make these moves, then let all be heard and done; it is right throughout, and the disk is used in the end."""
        if begun:
            self.begin()
        for choice in choices:
            moves = self.moves()
            moves[choice % len(moves)]()
            assert self.is_right
        while self.node_hears or self.controller_hears:
            for move in (self.tell_node, self.tell_controller):
                if move in self.moves():
                    move()
            assert self.calm_down()
        assert self.calm_down()
        assert self.node.is_mounted("b")
        assert self.in_use == (DISK,)


@settings(max_examples=150, deadline=None)
@given(st.booleans(), st.lists(st.integers(0, 9), max_size=80))
def test_a_mounted_disk_is_attached_in_whatever_order_everybody_hears_and_acts(
    begun: bool,
    choices: list[int],
) -> None:
    site = Site()
    site.play(choices, begun=begun)
    assert site.node.warnings() == ()


DEPTH = 9
"""Moves; the shortest order that is wrong without the count of lists has so many (tried by leaving the count out)."""
SLOW = (Site.tell_node, Site.patch, Site.hear_last, Site.tell_controller, Site.control)


def test_none_of_all_orders_of_nine_moves_leaves_a_disk_mounted_that_is_not_attached() -> None:
    """From a first Pod that goes; every order is tried once, but for those that lead where another has led."""
    seen = set[str]()
    paths: deque[tuple[int, ...]] = deque([()])
    while paths:
        path = paths.popleft()
        site = Site()
        site.begin()
        for number in (SLOW.index(Site.tell_node), *path):
            SLOW[number](site)
            site.node.settle()
        assert site.is_right, [SLOW[number].__name__ for number in path]
        state = site.state()
        if state not in seen and len(path) < DEPTH:
            names = {each.__name__ for each in site.moves()}
            paths += [(*path, number) for number, each in enumerate(SLOW) if each.__name__ in names]
        seen.add(state)
    assert len(seen) > 100


STEPS = ("patched", "attached", "verified", "detached", "late")


def goes_right(order: tuple[str, ...], *, counted: bool) -> bool:
    """Let a second Pod come while the list from which the first one's disk is missing is under way; then five things.

    `late` is a status from when the first Pod had the disk, `counted` whether it says which of the lists it shows.
    """
    site = Site()
    site.begin()
    old = status({DISK: site.listed}, (DISK,), reports=site.lists if counted else None)
    for _ in range(2):
        site.tell_node()
        site.node.settle()
    site.tell_controller()
    assert site.node.in_use == [(DISK,), (), (DISK,)]

    def do(name: str) -> None:
        match name:
            case "patched":
                site.patch()
            case "attached":
                site.wanted = True
                site.control()
            case "verified":
                site.show()
                site.hear_last()
            case "detached":
                for _ in range(3):
                    site.control()
            case _:
                site.node.reconciler.post(old)

    right = True
    for name in order:
        do(name)
        site.node.settle()
        right = right and site.is_right
    site.wanted = True
    right = site.calm_down() and right
    assert site.node.is_mounted("b"), "it is mounted in the end, whatever came first"
    return right


@pytest.mark.parametrize("order", list(permutations(STEPS)), ids="-".join)
def test_whatever_comes_first_of_five_things_no_disk_is_mounted_that_is_not_attached(order: tuple[str, ...]) -> None:
    assert goes_right(order, counted=True)


def test_without_the_count_of_lists_a_late_status_would_be_taken_for_a_new_one() -> None:
    wrong = [order for order in permutations(STEPS) if not goes_right(order, counted=False)]
    assert ("late", "patched", "detached", "attached", "verified") in wrong
