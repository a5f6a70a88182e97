"""Executed helpers: their end, whatever they do."""

import os
import select
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.root.host.fuse import SilentFuse
from volmgr.errors import CommandError, OperationError, UncertainError
from volmgr.host.commands import OUTPUT_TAIL, LocalCommands
from volmgr.host.mounts import KernelMounts
from volmgr.host.noted import StartedHelper, noted
from volmgr.host.processes import start_time


@pytest.fixture
def commands() -> LocalCommands:
    return LocalCommands()


@pytest.mark.usefixtures("descriptors")
def test_a_command_gets_its_input_and_gives_its_output(commands: LocalCommands) -> None:
    data = b"x" * 300_000
    result = commands.run(["sh", "-c", "wc -c; echo error >&2"], stdin=data)
    assert (result.exit_code, result.stdout.strip(), result.stderr) == (0, "300000", "error\n")


def test_a_command_that_does_not_read_its_input_is_no_failure(commands: LocalCommands) -> None:
    assert commands.run(["true"], stdin=bytes(1 << 20)).exit_code == 0


def test_another_exit_code_is_an_error_unless_it_is_accepted(commands: LocalCommands) -> None:
    with pytest.raises(CommandError, match="sh -c echo no >&2; exit 3 exited with 3: no"):
        commands.run(["sh", "-c", "echo no >&2; exit 3"])
    assert commands.run(["sh", "-c", "exit 3"], accept=(0, 3)).exit_code == 3
    with pytest.raises(CommandError) as caught:
        commands.run(["sh", "-c", "kill -9 $$"])
    assert caught.value.exit_code == -signal.SIGKILL


def test_a_missing_command_says_that_it_is_not_installed(commands: LocalCommands) -> None:
    with pytest.raises(OperationError, match=r"cannot run mount\.nowhere: it is not installed"):
        commands.run(["mount.nowhere"])
    assert commands.find("mount.nowhere") is None
    assert commands.find("/bin/sh") == Path("/bin/sh")


def test_an_argument_that_no_command_can_be_given_is_refused_and_costs_nothing(commands: LocalCommands) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(OperationError, match="has a NUL in it"):
            commands.run(["stat", "a\0b"])
    assert len(os.listdir("/proc/self/fd")) == before


def test_long_output_is_cut_to_its_end(commands: LocalCommands) -> None:
    result = commands.run(["sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x; echo end"])
    assert len(result.stdout) == OUTPUT_TAIL
    assert result.stdout.endswith("xend\n")


def test_a_command_speaks_english_with_a_clean_environment(commands: LocalCommands) -> None:
    result = commands.run(["env"], environment={"LANG": "de_DE.UTF-8", "MINE": "1"})
    lines = set(result.stdout.split())
    assert {"LANG=C", "LC_ALL=C", "MINE=1"} <= lines
    assert {line.partition("=")[0] for line in lines} <= {"LANG", "LC_ALL", "MINE", "PATH", "HOME", "PWD", "_", "SHLVL"}


def test_a_command_has_a_session_of_its_own_and_no_descriptor_but_three(commands: LocalCommands) -> None:
    result = commands.run(["sh", "-c", "cat /proc/self/stat; ls /proc/self/fd"])
    stat, *names = result.stdout.splitlines()
    assert int(stat.split()[5]) not in {os.getsid(0), 0}
    assert sorted(names) == ["0", "1", "2", "3"]  # 3 is the directory that ls reads


@pytest.mark.usefixtures("descriptors")
def test_a_command_past_its_deadline_is_killed_with_its_children(commands: LocalCommands, tmp_path: Path) -> None:
    script = "trap '' TERM; echo started >&2; (trap '' TERM; echo $BASHPID > pid; exec sleep 100) & wait; wait"
    with pytest.raises(UncertainError, match=r"did not end before its deadline and was killed: started"):
        commands.run(["bash", "-c", f"cd {tmp_path}; {script}"], deadline=0.5)
    child = int((tmp_path / "pid").read_text())
    assert is_gone(child)


def is_gone(pid: int) -> bool:
    """Wait for the end of a process that is no child of ours (its death is certain, its moment is not)."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    with os.fdopen(descriptor):
        return bool(select.select([descriptor], [], [], 10)[0])


def test_the_next_command_works_after_one_was_killed(commands: LocalCommands) -> None:
    with pytest.raises(UncertainError):
        commands.run(["sleep", "100"], deadline=0.1)
    assert commands.run(["echo", "good"]).stdout == "good\n"


def test_a_server_that_a_command_leaves_running_is_not_waited_for(commands: LocalCommands) -> None:
    result = commands.run(["sh", "-c", "sleep 100 & echo $!"], deadline=10)
    os.kill(int(result.stdout), signal.SIGKILL)


def test_a_cancelled_command_is_killed(commands: LocalCommands) -> None:
    answers = iter([False, False, True])
    with pytest.raises(UncertainError, match="sleep 100 was cancelled and was killed"):
        commands.run(["sleep", "100"], cancelled=lambda: next(answers))
    with pytest.raises(OperationError, match="was not run"):
        commands.run(["sleep", "100"], cancelled=lambda: True)


def test_many_commands_at_once_do_not_hold_each_others_pipes_open(commands: LocalCommands) -> None:
    done: list[str] = []

    def work() -> None:
        done.extend(commands.run(["cat"], stdin=b"x", deadline=20).stdout for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == ["x"] * 80


def test_a_mount_helper_past_its_deadline_is_killed_and_the_next_mount_works(
    mounts: KernelMounts, target: Path, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    helper = Path("/sbin/mount.volmgrslow")
    helper.write_text(f"#!/bin/sh\necho $$ > {pid}\nexec sleep 100\n")
    helper.chmod(0o755)
    try:
        with pytest.raises(UncertainError, match="mount -t did not end"):
            mounts.ensure_mounted(target, "volmgrslow", source="server:/x", deadline=0.5)
        assert is_gone(int(pid.read_text()))
        helper.write_text('#!/bin/sh\nexec mount -i -t tmpfs "$1" "$2"\n')
        mounts.ensure_mounted(target, "volmgrslow", source="server:/x", deadline=10)
        assert mounts.is_mount_point(target)
    finally:
        helper.unlink()


def test_a_command_that_cannot_be_killed_is_left_and_named(commands: LocalCommands, target: Path) -> None:
    with SilentFuse(target) as fuse:
        fuse.serve_until_asked()
        with pytest.raises(UncertainError, match=r"process (\d+) cannot be killed") as caught:
            commands.run(["stat", str(target / "file")], deadline=0.3)
        assert fuse.asked()
    words = str(caught.value).split()
    assert is_gone(int(words[words.index("process") + 1]))


class Book:
    """Who is told of helpers; `refuses` what is to be run."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses = refuses
        self.running: list[StartedHelper] = []
        self.names: list[str] = []

    def note(self, helper: StartedHelper) -> Callable[[], None]:
        assert start_time(helper.pid) is not None
        if self.refuses:
            raise OperationError("no room is left for a record")
        self.running.append(helper)
        self.names.append(helper.name)
        return lambda: self.running.remove(helper)


@pytest.mark.usefixtures("descriptors")
def test_a_helper_that_somebody_must_know_of_runs_only_after_that_and_is_as_any_other(
    commands: LocalCommands, tmp_path: Path
) -> None:
    book, script = Book(), 'echo "$0 $1 $$"; cat; ls /proc/self/fd; echo error >&2; exit 3'
    with noted(book.note):
        result = commands.run(["/bin/sh", "-c", script, "a b", "$c"], stdin=b"input\n", accept=(3,))
        assert commands.run(["env"], environment={"MINE": "1"}).stdout.count("MINE=1") == 1
        commands.run(["true"], changes=False)
    line, given, *descriptors = result.stdout.splitlines()
    assert line.rpartition(" ")[0] == "a b $c"
    assert (given, descriptors, result.stderr) == ("input", ["0", "1", "2", "3"], "error\n")  # 3: what ls reads
    assert (book.names, book.running) == (["sh", "env"], [])
    commands.run(["true"])
    assert book.names == ["sh", "env"]


@pytest.mark.usefixtures("descriptors")
def test_a_helper_that_could_not_be_noted_has_done_nothing(commands: LocalCommands, tmp_path: Path) -> None:
    with noted(Book(refuses=True).note), pytest.raises(OperationError, match="no room is left"):
        commands.run(["touch", str(tmp_path / "made")])
    assert not (tmp_path / "made").exists()


def test_a_noted_helper_that_cannot_be_executed_says_so_and_was_none(commands: LocalCommands, tmp_path: Path) -> None:
    book, helper = Book(), tmp_path / "helper"
    helper.write_text("#!/nowhere/interpreter\n")
    helper.chmod(0o755)
    with noted(book.note):
        with pytest.raises(OperationError, match=f"cannot run {helper}: (not found|no such file)"):
            commands.run([str(helper)], accept=range(256))
        helper.write_bytes(Path("/bin/true").read_bytes())
        with helper.open("ab"), pytest.raises(OperationError, match=f"cannot run {helper}: text file busy"):
            commands.run([str(helper)], accept=range(256))
        assert commands.run(["sh", "-c", "exit 127"], accept=(127,)).exit_code == 127
    assert book.running == []


def test_a_noted_helper_past_its_deadline_is_killed_and_no_more_on_record(commands: LocalCommands) -> None:
    book = Book()
    with noted(book.note), pytest.raises(UncertainError, match="was killed"):
        commands.run(["sleep", "100"], deadline=0.2)
    assert (book.names, book.running) == (["sleep"], [])


def test_one_that_cannot_be_killed_stays_on_record_until_it_has_ended(commands: LocalCommands, target: Path) -> None:
    book, ended = Book(), threading.Event()

    def note(helper: StartedHelper) -> Callable[[], None]:
        forget = book.note(helper)

        def forgotten() -> None:
            forget()
            ended.set()

        return forgotten

    with SilentFuse(target) as fuse:
        fuse.serve_until_asked()
        with noted(note), pytest.raises(UncertainError, match="cannot be killed"):
            commands.run(["stat", str(target / "file")], deadline=0.3)
        assert fuse.asked()
        assert [each.name for each in book.running] == ["stat"]
    assert ended.wait(10)
    assert book.running == []
