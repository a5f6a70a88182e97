"""Noticing changes of the mount table."""

import selectors
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from volmgr.host.mount_watch import MountWatch
from volmgr.host.mounts import KernelMounts


@pytest.fixture
def watch() -> Iterator[MountWatch]:
    watch = MountWatch()
    watch.acknowledge()
    yield watch
    watch.close()
    watch.close()


@pytest.fixture(params=[selectors.EpollSelector, selectors.PollSelector, selectors.SelectSelector])
def selector(request: pytest.FixtureRequest, watch: MountWatch) -> Iterator[selectors.BaseSelector]:
    with request.param() as selector:
        selector.register(watch, selectors.EVENT_READ)
        yield selector


def test_an_unchanged_table_is_silent(selector: selectors.BaseSelector) -> None:
    assert selector.select(0.05) == []


def test_each_change_wakes_a_selector_until_it_is_acknowledged(
    selector: selectors.BaseSelector, watch: MountWatch, mounts: KernelMounts, target: Path
) -> None:
    changes: tuple[Callable[[], None], ...] = (
        lambda: mounts.ensure_mounted(target, "tmpfs"),
        lambda: mounts.unmount(target),
    )
    for change in changes:
        change()
        assert len(selector.select(5)) == 1
        watch.acknowledge()
        assert selector.select(0.05) == []


def test_many_changes_wake_a_selector_once(
    selector: selectors.BaseSelector, watch: MountWatch, mounts: KernelMounts, target: Path
) -> None:
    for _ in range(20):
        mounts.ensure_mounted(target, "tmpfs")
        mounts.unmount(target)
    assert len(selector.select(5)) == 1
    watch.acknowledge()
    assert selector.select(0.05) == []
