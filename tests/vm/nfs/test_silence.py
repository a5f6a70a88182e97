"""Servers that are silent: who waits for them, who does not, what is said, and how volumes are freed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.root.acceptance.outside import memory
from tests.vm.nfs.node import NfsNode, claimed, of_ganesha, volume_and_claim
from tests.vm.servers.nfs import Ganesha
from tests.vm.servers.packets import swallowed

DEAD = "server 127.0.0.2 does not answer since 20"
WRITER = """\
import os, sys
file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
while True:
    os.write(file, b"x" * 4096)
    os.fsync(file)
"""
UNUSED = 2051
"""A port of ganesha's address on which nobody listens."""


@contextmanager
def writer(place: Path) -> Generator[subprocess.Popen[bytes]]:
    """Write to a file and sync it again and again, as a program of a container would."""
    with subprocess.Popen(["python3", "-S", "-c", WRITER, place / "file"], stderr=subprocess.DEVNULL) as process:
        eventually((place / "file").exists, "a program that writes")
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def user_of(place: Path) -> Generator[subprocess.Popen[bytes]]:
    """Keep a directory in use."""
    with subprocess.Popen(["sleep", "infinity"], cwd=place) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def paused(ganesha: Ganesha) -> Generator[None]:
    """Let a server answer nothing for as long as the block lasts."""
    ganesha.pause()
    try:
        yield
    finally:
        ganesha.resume()


def waits(process: subprocess.Popen[bytes]) -> bool:
    """Tell whether a process is in uninterruptible sleep."""
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "D"


def test_a_pod_of_a_server_that_swallows_packets_is_told_since_when(node: NfsNode, ganesha: Ganesha) -> None:
    node.put("pv.json", *of_ganesha(ganesha, "swallowed"))
    with swallowed(ganesha.address, ganesha.port):
        node.put_pod("waits", claimed("swallowed"))
        node.until_why("waits", DEAD)
        node.until_why("waits", "cannot connect to 127.0.0.2 on TCP port 2050: no answer within 2 s")
        node.mounted_pod("other", memory())
        assert not node.place("waits", "swallowed").exists()
    node.wait("waits")
    assert "does not answer" not in node.why("waits")


@pytest.mark.slow
def test_a_server_that_refuses_is_told_at_once(node: NfsNode, ganesha: Ganesha) -> None:
    node.put("pv.json", *volume_and_claim("refused", Path("/x"), f"port={UNUSED}", server=ganesha.address))
    node.put_pod("refused", claimed("refused"))
    node.until_why("refused", DEAD)
    node.until_why("refused", f"cannot connect to 127.0.0.2 on TCP port {UNUSED}: connection refused")


@pytest.mark.slow
def test_a_mount_that_a_paused_server_never_answers_is_ended_and_done_again_when_it_returns(
    top: Path, ganesha: Ganesha
) -> None:
    with NfsNode(top, operation_deadline="6s", quarantine_grace="2s") as node:
        node.put("pv.json", *of_ganesha(ganesha, "paused"))
        ganesha.pause()
        node.put_pod("waits", claimed("paused"))
        node.mounted_pod("other", memory())
        node.until_why("waits", DEAD)
        node.until_why("waits", "did not end before its deadline and was killed")
        ganesha.resume()
        node.wait("waits")
        node.remove_pod("waits")
        assert node.processes() == []


def test_a_server_that_returns_goes_on_with_what_was_written_meanwhile(node: NfsNode, ganesha: Ganesha) -> None:
    node.put("pv.json", *of_ganesha(ganesha, "returns"))
    node.mounted_pod("writes", claimed("returns"))
    place = node.place("writes", "returns")
    with writer(place) as process:
        ganesha.pause()
        eventually(lambda: waits(process), "a program that waits for its server")
        node.restart()
        node.mounted_pod("other", memory())
        assert "mounted" in node.volmgr("status", "writes").stdout
        size = (ganesha.directory("a") / "file").stat().st_size
        ganesha.resume()
        eventually(lambda: (ganesha.directory("a") / "file").stat().st_size > size, "more data on the server")
    node.remove_pod("writes")


def test_a_volume_whose_server_is_silent_is_taken_away_by_force_and_nothing_is_left(
    node: NfsNode, ganesha: Ganesha
) -> None:
    node.put("pv.json", *of_ganesha(ganesha, "forced"))
    node.mounted_pod("forced", claimed("forced"))
    (node.place("forced", "forced") / "file").write_text("there")
    ganesha.pause()
    (node.manifests / "forced.json").unlink()
    node.mounted_pod("other", memory())
    node.wait("forced", "unmounted")
    assert list(node.mounts()) == [str(node.volume("other"))]
    assert node.processes() == []


@pytest.mark.slow
def test_a_program_that_still_writes_gets_an_error_when_its_volume_is_forced_away(
    node: NfsNode, ganesha: Ganesha
) -> None:
    node.put("pv.json", *of_ganesha(ganesha, "busy"))
    node.mounted_pod("busy", claimed("busy"))
    place = node.place("busy", "busy")
    with writer(place) as process:
        ganesha.pause()
        eventually(lambda: waits(process), "a program that waits for its server")
        node.remove_pod("busy")
        assert process.wait(60) == 1
    assert node.mounts() == {}
    assert f"unmounting {place} (127.0.0.2:" in node.log_text()


@pytest.mark.slow
def test_a_forced_unmount_is_not_done_while_another_pod_waits_for_the_same_export(
    node: NfsNode, ganesha: Ganesha
) -> None:
    node.put("pv.json", *of_ganesha(ganesha, "both"))
    node.mounted_pod("leaves", claimed("both"))
    node.mounted_pod("stays", claimed("both"))
    with writer(node.place("leaves", "both")), writer(node.place("stays", "both")) as other:
        ganesha.pause()
        eventually(lambda: waits(other), "a program that waits for its server")
        (node.manifests / "leaves.json").unlink()
        node.until_why("leaves", "a forced unmount would end the calls of others that use the same file system")
        node.until_why("leaves", str(node.place("stays", "both")))
        ganesha.resume()
        assert other.poll() is None
    node.wait("leaves", "unmounted")
    node.remove_pod("stays")


@pytest.mark.slow
def test_a_volume_is_detached_where_the_policy_says_so_and_its_user_waits_on(top: Path, ganesha: Ganesha) -> None:
    with NfsNode(top, settings={"lazy_unmount": True, "force_after": 1.0}) as node:
        node.put("pv.json", *of_ganesha(ganesha, "lazy"))
        node.mounted_pod("lazy", claimed("lazy"))
        # Paused for a shorter time: the user's end is the end of the file system, which says goodbye to its server.
        with user_of(node.place("lazy", "lazy")) as user, paused(ganesha):
            node.remove_pod("lazy")
            assert node.mounts() == {}
            assert user.poll() is None


def test_a_restart_while_a_server_is_silent_waits_for_nobody(node: NfsNode, ganesha: Ganesha) -> None:
    node.put("pv.json", *of_ganesha(ganesha, "restart"))
    node.mounted_pod("dead", claimed("restart"))
    before = node.line("dead", "restart")
    ganesha.pause()
    node.kill()
    for record in (node.root / "volmgr/mounts").rglob("*.json"):
        record.unlink()
    node.start()
    node.mounted_pod("other", memory())
    node.until_why("dead", DEAD)
    assert node.line("dead", "restart") == before
    ganesha.resume()
    node.wait("dead")
    assert node.line("dead", "restart") == before


@pytest.mark.slow
def test_the_main_loop_never_waits_for_a_silent_server(node: NfsNode, ganesha: Ganesha) -> None:
    node.put("pv.json", *of_ganesha(ganesha, "asked"))
    node.mounted_pod("asked", claimed("asked"), memory("m"))
    ganesha.pause()
    for words in (("status", "asked"), ("why", "asked"), ("mounts", "asked"), ("orphans",), ("plan",)):
        node.volmgr(*words, code=None)
    tasks = Path(f"/proc/{node.pid}/task")
    states = [(tasks / name / "stat").read_text().rpartition(")")[2].split()[0] for name in os.listdir(tasks)]
    assert "D" not in states
