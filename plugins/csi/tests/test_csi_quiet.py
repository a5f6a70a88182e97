"""What the package costs while nothing happens: nothing is imported before the first driver, and nothing wakes."""

from __future__ import annotations

import os
import select
import subprocess  # noqa: TID251 - a process whose modules and threads are counted
import sys
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.csi.fault_driver.running import running_fault_process
from tests.eventually import eventually

SETTLED = 1.5
"""Seconds that nothing may happen in."""
LIMIT = 20 * 1024
"""KiB that the package may take with one driver."""

DAEMON = """
import sys
from pathlib import Path

import pyinotify
import volmgr.daemon
from volmgr.host.local import local_host
from volmgr_csi import plugin
from volmgr_csi.settings import CsiSettings


class Told:
    def report(self, searched):
        pass

    def declare(self, info):
        print("declared", flush=True)

    def withdraw(self, name):
        print("withdrawn", flush=True)


host = local_host(Path(sys.argv[1])).with_settings(CsiSettings(channel_idle=0.2))
(registrar,) = plugin.volmgr_driver_watchers(Told(), host)
registrar.start()
print("started", flush=True)
for line in sys.stdin:
    print(*sorted({name.partition(".")[0] for name in sys.modules} & {"grpc", "google", "asyncio"}), flush=True)
registrar.stop()
"""


@pytest.fixture
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("n")


@contextmanager
def daemon(root: Path) -> Generator[subprocess.Popen[str]]:
    """Run the registrar in a process of its own."""
    argv = [sys.executable, "-c", DAEMON, str(root)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert answer(process) == "started"
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait() == 0


def answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def libraries(process: subprocess.Popen[str]) -> list[str]:
    """Give which of the heavy libraries it has imported."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return answer(process).split()


def wakes(process: subprocess.Popen[str]) -> Mapping[str, str]:
    """Give how often each thread has waited, which is how often it woke."""
    tasks = Path(f"/proc/{process.pid}/task")
    found = {task.name: (task / "status").read_text() for task in tasks.iterdir()}
    return {
        name: next(line for line in text.splitlines() if line.startswith("voluntary_ctxt_switches"))
        for name, text in found.items()
    }


def resident(process: subprocess.Popen[str]) -> int:
    """Give its memory in KiB."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def nothing_happens(process: subprocess.Popen[str]) -> bool:
    """Say whether no thread of it woke for a while."""
    before = wakes(process)
    select.select([], [], [], SETTLED)
    return wakes(process) == before


def test_without_drivers_grpc_is_not_imported_and_nothing_wakes(top: Path) -> None:
    registry = top / "root/plugins_registry"
    with daemon(top / "root") as process:
        eventually(registry.is_dir)
        (registry / "file.sock").touch()
        os.mkfifo(registry / "pipe.sock")
        assert libraries(process) == []
        eventually(lambda: nothing_happens(process), "a while in which nothing wakes")


def test_an_idle_driver_wakes_nobody_and_takes_no_more_memory_than_it_may(top: Path) -> None:
    registration = top / "root/plugins_registry/reg.sock"
    with daemon(top / "root") as process, ExitStack() as stack:
        before = resident(process)
        driver = stack.enter_context(running_fault_process(top / "d", registration=registration))
        assert answer(process) == "declared"
        assert libraries(process) == ["google", "grpc"]
        eventually(lambda: nothing_happens(process), "a while in which nothing wakes")
        assert len(wakes(process)) == 2
        assert resident(process) - before < LIMIT
        driver.kill()
        eventually(lambda: nothing_happens(process), "a while in which nothing wakes")
        registration.unlink()
        assert answer(process) == "withdrawn"


def test_what_grpc_is_imported_without_is_there_for_who_uses_it() -> None:
    imported = "from volmgr_csi.driver.quiet_grpc import grpc; import asyncio; import grpc.aio"
    command = f"{imported}; print(asyncio.Task, grpc.aio.server)"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("<class '_asyncio.Task'> <function server")
