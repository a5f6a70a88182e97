"""Pods whose volumes' FUSE servers died, or answer nobody, hear of it; who has no such volume pays nothing (I83)."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from volmgr.errors import UncertainError
from volmgr.fuse_servers import DEAD, SILENT
from volmgr.host.commands import UnkillableError
from volmgr.host.interface import CommandResult, Host
from volmgr.host.noted import StuckHelper
from volmgr.plugin import Handles, Mount, Mounted, Unmount, Unmounted, VolumePlugin
from volmgr.report.why import why
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod

NAME = "example.com/served"
HEALTH = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedSource:
    """What type of file system."""

    type: str = "fuse.sshfs"


class Served(VolumePlugin[ServedSource]):
    """Mounts a file system of a type."""

    name = NAME
    handles = (Handles("served", source=ServedSource),)

    def volume_name(self, spec: object) -> str:
        del spec
        return "one"

    def mount(self, request: Mount[ServedSource], host: Host) -> Mounted:
        host.files.ensure_directory(request.target, 0o750)
        host.mounts.ensure_mounted(request.target, request.spec.source.type)
        return Mounted()

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        host.mounts.unmount(request.target)
        host.files.remove_directory(request.target)
        return Unmounted()


@dataclass
class Server:
    """What `stat` says of the file systems."""

    result: CommandResult = field(default_factory=lambda: CommandResult(0, "", ""))
    hangs: bool = False
    stuck: StuckHelper | None = None
    asked: list[Path] = field(default_factory=list[Path])

    def __call__(self, argv: tuple[str, ...], stdin: bytes) -> CommandResult:
        del stdin
        self.asked.append(Path(argv[-1]))
        if self.stuck is not None:
            raise UnkillableError("stat did not end before its deadline, and cannot be killed", self.stuck)
        if self.hangs:
            raise UncertainError("stat did not end before its deadline and was killed")
        return self.result

    def fail(self, error: int) -> None:
        text = f"stat: cannot read file system information for '/x': {os.strerror(error)}"
        self.result = CommandResult(1, "", text)


@pytest.fixture
def server(host: FakeHost) -> Server:
    server = Server()
    host.programs["stat"] = server
    for type_ in ("fuse.sshfs", "nfs4", "fusectl"):
        host.machine.serve(type_, type_)
    return server


@pytest.fixture
def node(host: FakeHost, server: Server) -> TestNode:
    del server
    node = TestNode(host, plugins_of(Served()))
    node.sources_ready()
    return node


def run(node: TestNode, name: str, type_: str = "fuse.sshfs") -> None:
    """Let a Pod have a volume of that type mounted, and the mount table have changed."""
    node.apply(pod(name, {"name": "v", "served": {"type": type_}}, uid=f"uid-{name}"))
    assert node.is_mounted(name), node.warnings()
    node.mounts_changed()


def text_of(node: TestNode, name: str) -> str:
    (report,) = why(node.world, name)
    return report.text


def test_the_server_of_a_node_s_first_mount_is_known_although_the_table_changed_before(
    node: TestNode, server: Server
) -> None:
    node.mounts_changed()  # while the operation still runs
    node.apply(pod("web", {"name": "v", "served": {"type": "fuse.sshfs"}}, uid="uid-web"))
    server.fail(errno.ENOTCONN)
    node.advance(HEALTH + 1)
    assert DEAD in text_of(node, "web")


@pytest.mark.parametrize("error", [errno.ENOTCONN, errno.ECONNABORTED, errno.ESTALE])
def test_a_running_pod_hears_that_its_volume_s_server_died(node: TestNode, server: Server, error: int) -> None:
    run(node, "web")
    run(node, "other")
    node.advance(HEALTH + 1)
    assert node.warnings() == ()
    server.fail(error)
    node.advance(HEALTH)
    assert DEAD in text_of(node, "web")
    assert not node.is_mounted("web")
    assert node.warnings().count(DEAD) == 2
    node.advance(10 * HEALTH)
    assert node.warnings().count(DEAD) == 2
    assert node.host.mounts.table() != ()


def test_a_server_that_answers_again_is_well(node: TestNode, server: Server) -> None:
    run(node, "web")
    server.hangs = True
    node.advance(HEALTH + 1)
    assert SILENT in text_of(node, "web")
    server.hangs = False
    node.advance(3 * HEALTH)
    assert node.is_mounted("web")
    assert SILENT not in text_of(node, "web")


def test_ever_fewer_helpers_hang_in_a_server_that_does_not_answer(node: TestNode, server: Server) -> None:
    run(node, "web")
    server.hangs = True
    node.advance(1000 * HEALTH)
    assert len(server.asked) <= 11


def test_while_a_helper_cannot_be_ended_no_other_one_comes_beside_it(node: TestNode, server: Server) -> None:
    run(node, "web")
    server.stuck = StuckHelper("stat", 4711)
    node.advance(3 * HEALTH)
    assert len(server.asked) == 1
    assert SILENT in text_of(node, "web")
    stuck, server.stuck = server.stuck, None
    node.advance(1000 * HEALTH)
    assert len(server.asked) == 1
    stuck.ended.set()
    node.advance(HEALTH)
    assert len(server.asked) == 2
    assert node.is_mounted("web")


def test_who_waits_keeps_no_server_whose_last_mount_has_gone(node: TestNode, host: FakeHost, server: Server) -> None:
    cut: list[str] = []

    def cuts(argv: tuple[str, ...], _stdin: bytes) -> CommandResult:
        cut.append(argv[-1])
        return CommandResult(0, "", "")

    host.programs["sh"] = cuts
    for name in ("one", "two"):  # of one file system
        run(node, name)
    (device,) = {entry.device for entry in host.mounts.table() if entry.fstype == "fuse.sshfs"}
    stuck = server.stuck = StuckHelper("stat", 4711)
    node.advance(HEALTH + 1)
    node.delete("uid-one")
    node.advance(2 * HEALTH)
    assert cut == []
    host.mkdir("/proc/7/ns")
    host.files.ensure_symlink(Path("/proc/7/ns/mnt"), "mnt:[7]")
    host.put("/proc/7/mountinfo", f"9 1 {device} / /mnt rw - fuse.sshfs x rw\n".encode())
    node.delete("uid-two")
    node.advance(2 * HEALTH)
    assert cut == [], "a container still has it"
    host.files.remove_file(Path("/proc/7/mountinfo"))
    host.mkdir("/proc/7/mountinfo")  # what is there cannot be read
    node.advance(HEALTH)
    assert cut == [], "a container may have it"
    host.files.remove_tree(Path("/proc/7"))
    node.advance(HEALTH)
    assert cut == [device.removeprefix("0:")]
    stuck.ended.set()
    node.advance(10 * HEALTH)
    assert len(cut) == 1
    assert node.reconciler.timers.next_due() is None


def test_an_error_of_the_server_s_own_is_no_death(node: TestNode, server: Server) -> None:
    run(node, "web")
    server.fail(errno.ENOSYS)
    node.advance(2 * HEALTH)
    assert node.is_mounted("web")


def test_a_machine_without_stat_asks_nobody(node: TestNode, host: FakeHost) -> None:
    del host.programs["stat"]
    run(node, "web")
    node.advance(2 * HEALTH)
    assert node.is_mounted("web")
    assert node.warnings() == ()


def test_other_file_systems_are_not_asked_and_wake_nobody(node: TestNode, server: Server) -> None:
    for type_ in ("tmpfs", "nfs4", "fusectl"):
        run(node, type_, type_)
    node.advance(1)
    assert node.reconciler.timers.next_due() is None
    assert server.asked == []


def test_nobody_is_asked_when_the_last_such_volume_is_gone(node: TestNode, server: Server) -> None:
    run(node, "web")
    node.advance(HEALTH + 1)
    assert len(server.asked) == 1
    node.delete("uid-web")
    node.advance(10 * HEALTH)
    assert len(server.asked) == 1
    assert node.reconciler.timers.next_due() is None


def test_a_server_that_died_while_no_daemon_ran_is_found_out(node: TestNode, server: Server) -> None:
    run(node, "web")
    node.start()
    node.sources_ready()
    server.fail(errno.ENOTCONN)
    node.advance(HEALTH + 1)
    assert DEAD in text_of(node, "web")
