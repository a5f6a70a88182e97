"""Third-party types with the worst of bugs: only their own volumes are concerned, and the daemon runs on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from volmgr.plugin import (
    Facets,
    Handles,
    Host,
    Mount,
    Mounted,
    Objects,
    Pod,
    Reference,
    Unmount,
    Unmounted,
    VolumePlugin,
    VolumeSpec,
)
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod
from volmgr_emptydir.plugin import EmptyDir


class Worst(BaseException):
    """Neither an Exception nor anything that Python knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    at: str = ""


def nothing() -> object:
    return None


class Broken(VolumePlugin[Source]):
    """Does `bug` in the method that the volume's source names."""

    name = "example.com/broken"
    handles = (Handles("broken", source=Source),)
    _bug: Callable[[], object] = staticmethod(nothing)

    def _reach(self, here: str, spec: VolumeSpec[Source], right: object) -> Any:  # noqa: ANN401 - or anything
        return self._bug() if spec.source.at == here else right

    def unique_name(self, spec: VolumeSpec[Source], pod_uid: str) -> str:
        name: str = self._reach("unique_name", spec, f"{self.name}/{pod_uid}-{spec.name}")
        return name

    def facets(self, spec: VolumeSpec[Source], objects: Objects) -> Facets:
        del objects
        facets: Facets = self._reach("facets", spec, Facets(remount=True))
        return facets

    def references(self, spec: VolumeSpec[Source], pod: Pod) -> tuple[Reference, ...]:
        del pod
        references: tuple[Reference, ...] = self._reach("references", spec, ())
        return references

    def check(self, spec: VolumeSpec[Source], pod: Pod | None) -> None:
        del pod
        answer: None = self._reach("check", spec, None)
        return answer

    def exclusive(self, spec: VolumeSpec[Source]) -> tuple[str, ...]:
        exclusive: tuple[str, ...] = self._reach("exclusive", spec, ())
        return exclusive

    def refresh_at(self, spec: VolumeSpec[Source], mounted_at: float) -> float | None:
        del mounted_at
        due: float | None = self._reach("refresh_at", spec, None)
        return due

    def mount(self, request: Mount[Source], host: Host) -> Mounted:
        del host
        mounted: Mounted = self._reach("mount", request.spec, Mounted())
        return mounted

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        del request, host
        return Unmounted()


def end() -> None:
    raise SystemExit(3)


def interrupt() -> None:
    raise KeyboardInterrupt


def worst() -> None:
    raise Worst


def deep() -> None:
    deep()


def lists() -> tuple[list[str]]:
    return ([],)


def name_of_another() -> str:
    return f"{EmptyDir.name}/uid-other-v"


@pytest.mark.parametrize("bug", [end, interrupt, worst, deep, lists, name_of_another])
@pytest.mark.parametrize("at", ["unique_name", "facets", "check", "references", "exclusive", "refresh_at", "mount"])
def test_a_bug_of_a_type_concerns_only_its_own_volumes(bug: Callable[[], object], at: str) -> None:
    class Bad(Broken):
        """Has one bug."""

        _bug = staticmethod(bug)

    node = TestNode(FakeHost(), plugins_of(EmptyDir(), Bad()))
    node.sources_ready()
    node.apply(pod("other", {"name": "v", "emptyDir": {}}, uid="uid-other"))
    node.apply(pod("broken", {"name": "v", "broken": {"at": at}}, uid="uid-broken"))
    node.advance(10)
    node.start()
    node.sources_ready()
    node.apply(pod("late", {"name": "v", "emptyDir": {}}, uid="uid-late"))
    assert node.is_mounted("uid-other")
    assert node.is_mounted("uid-late")
    assert at == "refresh_at" or not node.is_mounted("uid-broken")
    node.delete("uid-broken")
    node.delete("uid-late")
    node.advance(600)
    assert node.is_unmounted("uid-late")
    assert node.is_mounted("uid-other")


def test_a_mount_that_is_always_due_again_does_not_spin() -> None:
    counted: list[float] = []

    def past() -> float:
        counted.append(0.0)
        return 0.0

    class Due(Broken):
        """Is always due."""

        _bug = staticmethod(past)

    node = TestNode(FakeHost(), plugins_of(Due()))
    node.sources_ready()
    node.apply(pod("due", {"name": "v", "broken": {"at": "refresh_at"}}, uid="uid-due"))
    node.advance(5)
    assert 1 < len(counted) <= 24  # ten mounts in five seconds; it is asked after each, and when each is due
