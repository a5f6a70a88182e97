"""As `test_attach_races`, with the watcher of the own Node between node and server: late, lost and unanswered."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.flow.core.test_attach_races import ROUNDS, Site
from tests.flow.core.test_handshake import DISK
from tests.unit.kube.memory_api import MemoryApi
from tests.unit.kube.turned_thread import TurnedThread
from volmgr.kube.errors import ApiError
from volmgr.kube.node import OwnNode
from volmgr.kube.wire import Seen, seen_of
from volmgr.messages import Message, NodeStatusRead
from volmgr.model.kube import KubeSettings
from volmgr.model.objects import MANAGED

NODE = "/api/v1/nodes/n1"


class OwnNodeSite(Site):
    """A node, the watcher of its Node, and a server in memory. A patch may have no answer, and arrive later or not."""

    def __init__(self) -> None:
        self.api = MemoryApi()
        self.thread = TurnedThread()
        self.watched = deque[Seen]()
        self.late: Callable[[], object] | None = None
        """A patch without an answer that has not arrived."""
        self.own = OwnNode(self.thread, self.api, KubeSettings(), "n1", self.told_by_own, controller_attach=True)
        self.lists: int = 0
        super().__init__()

    def told_by_own(self, message: Message) -> None:
        assert isinstance(message, NodeStatusRead)
        self.events.append(message)

    def moves(self) -> list[Callable[[], object]]:
        there = super().moves()
        found = [each for each in there if each not in {self.patch, self.patch_last}]
        found += [self.report] * (self.lists < len(self.node.in_use))
        found += [self.hear_watch] * bool(self.watched)
        found += [self.send, self.lose] * bool(self.thread.requests)
        found += [self.thread.hear] * bool(self.thread.answers)
        found += [self.arrive] * (self.late is not None)
        return [*found, self.pass_time]

    def show(self) -> None:
        """Let the status be written with what is attached, and be watched."""
        attached = [{"name": DISK, "devicePath": self.listed}] if self.listed else []
        metadata = {"name": "n1", "uid": "u", "annotations": {MANAGED: "true"}}
        status = {"volumesAttached": attached, "volumesInUse": list(self.in_use)}
        self.see(self.api.put(NODE, {"metadata": metadata, "status": status}))

    def see(self, document: object) -> None:
        """Let a state be on its way to the watcher."""
        seen = seen_of(json.dumps(document).encode())
        if not self.watched or self.watched[-1] != seen:
            self.watched.append(seen)

    def show_again(self) -> None:
        """Let the watcher hear of what the server has had all the time, and the node of that."""
        self.look()
        for _ in tuple(self.watched):
            self.hear_watch()
        self.hear_last()
        self.node.settle()

    def report(self) -> None:
        """Let the watcher hear of the next list."""
        self.own.report(self.node.in_use[self.lists])
        self.lists += 1

    def hear_watch(self) -> None:
        """Let the watcher hear of the next state."""
        self.own.changed(self.watched.popleft())

    def send(self) -> None:
        """Let a request arrive."""
        self.thread.send()
        self.look()

    def lose(self) -> None:
        """Let a request have no answer; it arrives later, unless that has happened to another."""
        patch = self.api.patch

        def unanswered(path: str, body: object, **how: object) -> bytes:
            self.late = lambda: patch(path, body, **how)  # type: ignore[arg-type]
            raise ApiError("no answer")

        self.api.patch = unanswered  # type: ignore[method-assign]
        try:
            self.thread.send()
        finally:
            self.api.patch = patch  # type: ignore[method-assign]

    def arrive(self) -> None:
        """Let a patch without an answer arrive."""
        late, self.late = self.late, None
        assert late is not None
        with suppress(ApiError):  # a conflict
            late()
        self.look()

    def look(self) -> None:
        """Look at what the server has."""
        document = self.api.objects[NODE]
        self.in_use = tuple(document["status"]["volumesInUse"])
        self.see(document)

    def pass_time(self) -> None:
        """Let the next timer be due."""
        self.thread.clock.now += KubeSettings().status_retry_max
        self.thread.turn()

    def calm_down(self) -> bool:
        """Let all that is under way be heard and done, and all time pass that anybody waits for."""
        right = True
        quick = (self.report, self.send, self.thread.hear, self.hear_watch, self.hear, self.control)
        for _ in range(ROUNDS * 2):
            self.node.settle()
            there = self.moves()
            under_way = [each for each in quick if each in there]
            if under_way:
                under_way[0]()
            elif self.late is not None:
                self.arrive()
            else:
                self.pass_time()
                if not [each for each in quick if each in self.moves()]:
                    return right
            right = right and self.is_right
        return right


@settings(max_examples=100, deadline=None)
@given(st.booleans(), st.lists(st.integers(0, 13), max_size=80))
def test_a_mounted_disk_is_attached_whatever_becomes_of_what_is_patched_and_watched(
    begun: bool,
    choices: list[int],
) -> None:
    site = OwnNodeSite()
    site.play(choices, begun=begun)
    site.thread.stop()


def test_a_list_without_an_answer_that_arrives_after_the_next_pod_has_come_is_not_overlooked() -> None:
    site = OwnNodeSite()
    site.begin()
    for _ in ("a leaves", "b comes"):
        site.tell_node()
        site.node.settle()
    assert site.node.in_use == [(DISK,), (), (DISK,)]
    site.report()
    site.pass_time()
    site.lose()
    site.thread.hear()
    site.report()
    site.show_again()
    site.arrive()
    site.tell_controller()
    for _ in ("taken out of the status", "looked whether it is in use", "detached"):
        site.control()
        assert site.is_right
    assert site.calm_down()
    site.thread.stop()
