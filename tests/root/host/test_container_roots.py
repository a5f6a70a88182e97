"""Which processes run in containers, as the doctor sees them."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from volmgr.cli.checks import is_contained

_WAIT = "import os, sys; os.chroot(sys.argv[1]); print('in', flush=True); sys.stdin.read()"


@contextmanager
def process(root: Path) -> Generator[int]:
    """Give a process with that root directory, which waits."""
    command = [sys.executable, "-c", _WAIT, str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"in\n"
        yield running.pid


def test_who_has_another_root_directory_is_in_a_container_and_who_has_ended_is_in_none(tmp_path: Path) -> None:
    with process(tmp_path) as inside, process(Path("/")) as beside:
        assert is_contained(inside, os.getpid())
        assert not is_contained(beside, os.getpid())
    assert not is_contained(inside, os.getpid())


def _is_of_the_kernel(process: str) -> bool:
    """Tell by the flags, whatever it runs: PF_KTHREAD of the kernel's sched.h."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return bool(int(fields[6]) & 0x00200000)


def test_the_kernel_s_own_threads_are_in_no_container_although_one_has_another_root_directory() -> None:
    threads = [int(name) for name in os.listdir("/proc") if name.isdecimal() and _is_of_the_kernel(name)]
    assert [thread for thread in threads if is_contained(thread, os.getpid())] == []
