"""Trees of all kinds given to a group, also while others work in them: as a simple model says, and nothing outside."""

from __future__ import annotations

import os
import select
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.root.host.fuse import SilentFuse
from volmgr.errors import OperationError
from volmgr.host.commands import LocalCommands
from volmgr.host.group_walk import GroupWalk
from volmgr.host.ownership import LocalOwnership

GROUP = 4242
FILE_BITS = {False: 0o660, True: 0o440}

Tree = tuple[str, int, int] | tuple[str, int, int, "dict[str, Tree]"]

MODES = st.integers(0, 0o7777)
GROUPS = st.sampled_from([0, 7, GROUP])
FILES = st.tuples(st.sampled_from(["file", "fifo", "link"]), MODES, GROUPS)
TREES: st.SearchStrategy[Tree] = st.recursive(
    FILES,
    lambda inner: st.tuples(st.just("directory"), MODES, GROUPS, st.dictionaries(st.sampled_from("abcdef"), inner)),
    max_leaves=12,
)


def plant(path: Path, tree: Tree) -> None:
    """Make what a tree says."""
    kind, mode, group = tree[0], tree[1], tree[2]
    if len(tree) == 4:
        path.mkdir(exist_ok=True)
        for name, child in tree[3].items():
            plant(path / name, child)
    elif kind == "link":
        path.symlink_to("/etc/passwd")
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.touch()
    os.chown(path, -1, group, follow_symlinks=False)
    if kind != "link":
        path.chmod(mode)


def seen(top: Path) -> dict[str, tuple[str, int, int]]:
    """Give type, group and mode of all that is there; links have no mode."""
    found: dict[str, tuple[str, int, int]] = {}
    for path in (top, *top.rglob("*")):
        info = path.lstat()
        mode = 0 if path.is_symlink() else stat.S_IMODE(info.st_mode)
        found[str(path.relative_to(top))] = (stat.filemode(info.st_mode)[0], info.st_gid, mode)
    return found


def given_away(before: dict[str, tuple[str, int, int]], bits: int) -> dict[str, tuple[str, int, int]]:
    """Say what a tree is to be afterwards (behaviours §3.2)."""
    after: dict[str, tuple[str, int, int]] = {}
    for path, (kind, _, mode) in before.items():
        added = {"l": 0, "d": bits | 0o2110}.get(kind, bits)
        after[path] = (kind, GROUP, mode | added)
    return after


def by_parts(path: Path, bits: int, parts: int) -> None:
    """Walk as the helper's processes do, one after the other."""
    for part in range(parts):
        GroupWalk(str(path), GROUP, bits, lambda _walk: None, part=part, parts=parts).below()
    GroupWalk(str(path), GROUP, bits, lambda _walk: None).root()


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=TREES, read_only=st.booleans(), parts=st.integers(1, 4))
def test_any_tree_becomes_what_the_model_says_and_a_second_walk_writes_nothing(
    tmp_path_factory: pytest.TempPathFactory, tree: Tree, *, read_only: bool, parts: int
) -> None:
    top = tmp_path_factory.mktemp("tree")
    plant(top, ("directory", 0o700, 0, {"a": tree}))
    before = seen(top)
    by_parts(top, FILE_BITS[read_only], parts)
    assert seen(top) == given_away(before, FILE_BITS[read_only])
    changed = {path: path.lstat().st_ctime_ns for path in top.rglob("*")}
    LocalOwnership(LocalCommands()).apply(top, GROUP, read_only=read_only)
    assert {path: path.lstat().st_ctime_ns for path in top.rglob("*")} == changed


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=TREES, read_only=st.booleans())
def test_the_helper_does_what_the_model_says(
    tmp_path_factory: pytest.TempPathFactory, tree: Tree, *, read_only: bool
) -> None:
    top = tmp_path_factory.mktemp("tree")
    plant(top, ("directory", 0o700, 0, {"a": tree}))
    before = seen(top)
    LocalOwnership(LocalCommands(), small=0).apply(top, GROUP, read_only=read_only)
    assert seen(top) == given_away(before, FILE_BITS[read_only])


@contextmanager
def meanwhile(act: Callable[[], None]) -> Generator[None]:
    """Do something again and again on a thread."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            act()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_an_attacker_who_swaps_files_and_directories_for_links_reaches_nothing_outside(target: Path) -> None:
    outside = target.parent / "outside"
    (outside / "below").mkdir(parents=True)
    for path in (outside / "below" / "x", outside / "x"):
        path.touch(mode=0o600)
    before = seen(outside)
    volume = target / "volume"
    (volume / "d" / "below").mkdir(parents=True)
    (volume / "d" / "below" / "x").touch()
    (volume / "x").touch()

    def attack() -> None:
        for name, lure in (("d", outside), ("x", outside / "x")):
            (volume / name).rename(target / "aside")
            (volume / name).symlink_to(lure)
            (volume / name).unlink()
            (target / "aside").rename(volume / name)

    here, helper = LocalOwnership(LocalCommands()), LocalOwnership(LocalCommands(), small=0)
    with meanwhile(attack):
        for number in range(2000):
            with suppress(OperationError):  # a directory was moved away while the walk was in it
                (here if number % 200 else helper).apply(volume, GROUP + number % 2)
    assert seen(outside) == before


def test_files_that_come_and_go_meanwhile_are_no_error(target: Path) -> None:
    (target / "stays").touch(mode=0o600)

    def churn() -> None:
        for number in range(20):
            (target / f"{number}").touch()
        for number in range(20):
            (target / f"{number}").unlink()

    ownership = LocalOwnership(LocalCommands())
    with meanwhile(churn):
        for number in range(500):
            ownership.apply(target, GROUP + number % 2)
    assert (target / "stays").stat().st_gid == GROUP + 1


def test_set_id_bits_are_never_put_on_a_file_that_took_another_s_place(target: Path) -> None:
    """Looked at and changed by one handle: what an attacker renames in between keeps its own bits."""
    (target / "program").touch()
    (target / "program").chmod(0o6755)
    (target / "victim").touch()
    (target / "victim").chmod(0o755)

    def swap() -> None:
        (target / "program").rename(target / "aside")
        (target / "victim").rename(target / "program")
        (target / "program").rename(target / "victim")
        (target / "aside").rename(target / "program")

    ownership = LocalOwnership(LocalCommands())
    with meanwhile(swap):
        for number in range(2000):
            ownership.apply(target, GROUP + number % 2)
    assert stat.S_IMODE((target / "victim").stat().st_mode) == 0o775


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_the_helper_does_not_outlive_the_daemon(target: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom volmgr.host.commands import LocalCommands\n"
        "from volmgr.host.ownership import LocalOwnership\n"
        f"LocalOwnership(LocalCommands()).apply(Path({str(target)!r}), {GROUP})\n"
    )
    with SilentFuse(target) as fuse:
        fuse.serve_until_asked()
        daemon = subprocess.Popen([sys.executable, "-c", code])
        try:
            assert fuse.asked()
            (helper,) = children_of(daemon.pid)
            handle = os.pidfd_open(helper)
        finally:
            daemon.kill()
            daemon.wait()
        try:
            assert select.select([handle], [], [], 20)[0]
        finally:
            os.close(handle)
