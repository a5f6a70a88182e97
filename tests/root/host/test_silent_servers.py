"""A server that does not answer: whatever is asked of the host returns, and at most one process waits for a path."""

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.root.host.fuse import SilentFuse
from volmgr.errors import OperationError, SpecError, UncertainError, VolmgrError
from volmgr.fuse_servers import trouble
from volmgr.host import served, syscalls
from volmgr.host.interface import Host
from volmgr.host.local import local_host
from volmgr.host.ownership import ON_ROOT_MISMATCH
from volmgr_csi.node.mount_check import is_dead

SILENT = r"has not answered within 0\.3 s; see whether its server is reachable"


@pytest.fixture
def host(root: Path) -> Host:
    return local_host(root, look_deadline=0.3)


@pytest.fixture
def hung(target: Path) -> Iterator[Path]:
    """A mount whose server never answers; what waits for it is released at the end."""
    with SilentFuse(target) as fuse:
        fuse.serve_until_asked()
        yield target


@pytest.fixture
def place(root: Path) -> Path:
    place = root / "place"
    place.mkdir()
    return place


def children() -> set[str]:
    """Name the processes that threads of this one have started and that have not ended."""
    found: set[str] = set()
    for task in os.listdir("/proc/self/task"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended meanwhile
            found.update(Path(f"/proc/self/task/{task}/children").read_text().split())
    return found


def test_a_path_on_it_is_known_to_be_served_without_a_question(host: Host, hung: Path, place: Path) -> None:
    link = host.paths.root / "link"
    link.symlink_to(hung / "inner")
    for path in (hung, hung / "a/b", place / ".." / "target/x"):
        assert served.is_served(path), path
    assert served.is_served(link, follow=True)
    assert not served.is_served(link)
    assert not served.is_served(place)
    assert not served.is_served(place / "missing")
    link.unlink()
    link.symlink_to("link")
    assert not served.is_served(link, follow=True)


def test_what_it_is_is_asked_by_a_process_that_is_given_up(host: Host, hung: Path) -> None:
    for path in (hung, hung / "inner"):
        with pytest.raises(UncertainError, match=SILENT):
            host.files.info(path, follow=True)


def test_how_full_it_is_is_asked_by_a_process_that_is_given_up(host: Host, hung: Path) -> None:
    with pytest.raises(UncertainError, match=SILENT):
        host.filesystems.measure(hung)
    with pytest.raises(UncertainError, match=r"does not answer: process [0-9]+ is still waiting"):
        host.mounts.file_system(hung)


def test_who_waits_for_an_answer_keeps_no_mount_busy(host: Host, target: Path) -> None:
    for ask in (
        lambda: host.mounts.file_system(target),
        lambda: host.mounts.lives(target, deadline=0.3),
        lambda: trouble(host, target),
        lambda: host.files.info(target),
        lambda: host.filesystems.measure(target),
    ):
        with SilentFuse(target) as fuse:
            fuse.serve_until_asked()
            with pytest.raises(UncertainError):
                ask()
            assert children()
            host.mounts.unmount(target)
            assert not host.mounts.is_mount_point(target)
        eventually(lambda: not children(), "the end of who waited")


def test_a_mount_is_named_by_its_own_path_whichever_way_it_is_asked(host: Host, target: Path) -> None:
    with SilentFuse(target) as fuse:
        fuse.refuse_all(errno.EIO)
        with pytest.raises(OperationError, match=f"'{target}': Input/output error"):
            host.mounts.lives(target)
        with pytest.raises(OperationError, match=f"'{target}': Input/output error"):
            host.mounts.file_system(target)
        with pytest.raises(OperationError, match=f"'{target}': Input/output error"):
            host.files.info(target)
        before = len(os.listdir("/proc/self/fd"))
        with host.mounts.aside(target) as place:
            assert place != target
        with host.mounts.aside(target / "nothing") as place:
            assert place == target / "nothing"
        assert len(os.listdir("/proc/self/fd")) == before


def test_forty_questions_leave_one_process(host: Host, hung: Path) -> None:
    before = children()
    for _ in range(40):
        with pytest.raises(UncertainError):
            host.files.info(hung)
    assert len(children() - before) == 1


def test_whether_what_a_driver_staged_is_dead_is_asked_by_one_process_however_often(host: Host, hung: Path) -> None:
    for _ in range(3):
        assert not is_dead(hung, host)
    assert len(children()) == 1


def test_what_a_driver_staged_is_dead_when_its_server_has_gone(host: Host, target: Path) -> None:
    with SilentFuse(target) as fuse:
        fuse.refuse_all(errno.EIO)
        assert not is_dead(target, host)
    assert is_dead(target, host)


def test_who_asks_at_the_same_time_is_given_up_with_the_first(host: Host, hung: Path) -> None:
    before = children()
    problems: list[UncertainError] = []

    def ask() -> None:
        try:
            host.files.info(hung)
        except UncertainError as error:
            problems.append(error)

    threads = [threading.Thread(target=ask) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(problems) == 40
    assert len(children() - before) == 1


def test_a_server_that_is_back_is_asked_again(host: Host, target: Path) -> None:
    with SilentFuse(target) as fuse:
        fuse.serve_until_asked()
        with pytest.raises(UncertainError):
            host.files.info(target)
    host.mounts.unmount(target)
    with SilentFuse(target) as fuse:
        fuse.refuse_all(errno.EIO)
        with pytest.raises(OperationError, match="Input/output error"):
            host.files.info(target)
        with pytest.raises(OperationError, match="Input/output error"):
            host.mounts.file_system(target)


def test_it_is_there_and_the_same_without_a_question(host: Host, hung: Path) -> None:
    identity = host.files.identity(hung)
    assert identity is not None
    assert identity.mount is not None
    assert host.files.identity(hung) == identity
    assert host.files.ensure_directory(hung, 0o750) is False
    assert host.files.remove_directory(hung) is False


def test_it_is_bound_read_only_and_taken_away_again(host: Host, hung: Path, place: Path) -> None:
    for _ in range(2):
        host.mounts.ensure_bound(hung, place, options=("ro", "nosuid"))
    entry = host.mounts.entry(place)
    assert entry is not None
    assert {"ro", "nosuid"} <= set(entry.options)
    host.mounts.unmount_below(place)
    assert not host.mounts.is_mount_point(place)


def test_what_is_mounted_in_it_is_taken_away_with_it(host: Host, hung: Path, place: Path) -> None:
    inner = host.paths.root / "inner"
    inner.mkdir()
    syscalls.mount("tmpfs", str(place), "tmpfs")
    host.files.ensure_directory(place / "below", 0o750)
    host.mounts.ensure_bound(hung, place / "below")
    host.mounts.unmount_below(place)
    assert not host.mounts.is_mount_point(place)


def test_a_sub_path_of_it_is_given_up(host: Host, target: Path, place: Path) -> None:
    with SilentFuse(target) as fuse:
        fuse.serve_until_asked()
        with pytest.raises(UncertainError, match=SILENT):
            host.subpaths.bind(target, "inner", place)
        assert fuse.asked()
    assert not host.mounts.is_mount_point(place)


def test_a_sub_path_that_a_server_refuses_is_told_as_it_is_without_one(host: Host, target: Path, place: Path) -> None:
    with SilentFuse(target) as fuse:
        fuse.refuse_all(errno.EIO)
        with pytest.raises(OperationError, match=r"open subPath inner of .*: EIO"):
            host.subpaths.bind(target, "inner", place)
        with pytest.raises(SpecError, match="is absolute"):
            host.subpaths.bind(target, "/inner", place)


def test_a_sub_path_of_a_volume_with_a_server_is_bound_by_a_helper_once(host: Host, target: Path, place: Path) -> None:
    syscalls.mount("binfmt_misc", str(target), "binfmt_misc")
    assert served.is_served(target)
    assert host.subpaths.bind(target, "status", place / "0") is True
    assert host.mounts.is_mount_point(place / "0")
    assert (place / "0").read_text().strip() in {"enabled", "disabled"}
    assert host.subpaths.bind(target, "status", place / "0") is False


@pytest.mark.parametrize("policy", ["Always", ON_ROOT_MISMATCH])
def test_giving_it_to_a_group_ends_when_that_is_cancelled(host: Host, hung: Path, policy: str) -> None:
    answers = iter([False, False])
    with pytest.raises(VolmgrError):
        host.ownership.apply(hung, 5000, policy=policy, cancelled=lambda: next(answers, True))
