"""Servers that do not answer, under a real volmgrd: what they cost stays the same, and nobody else waits for them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.live_node import PATIENCE, LiveNode
from tests.root.core.test_live_flexvolume import FlexNode, flex_node
from tests.root.host.fuse import SilentFuse
from volmgr_emptydir.plugin import EmptyDir

DISK: dict[str, object] = {"emptyDir": {}}
MEMORY: dict[str, object] = {"emptyDir": {"medium": "Memory"}}
HANGING = 4
RETRIES = 40
WORKERS = 8
ROOM = 2
"""Workers that one operation which takes long may have others beside it."""
DESCRIPTORS = 12
"""Of one helper that runs: its pipes, while they are made both ends of each, its pidfd, and its record."""
SHORT = {"backoff_initial": "10ms", "backoff_max": "50ms"}


@dataclass(frozen=True)
class Cost:
    """What a daemon has of what runs out."""

    threads: int
    children: int
    descriptors: int


def cost_of(node: LiveNode) -> Cost:
    process = Path(f"/proc/{node.daemon.pid}")
    threads = os.listdir(process / "task")
    children = [pid for each in threads for pid in (process / "task" / each / "children").read_text().split()]
    return Cost(len(threads), len(children), len(os.listdir(process / "fd")))


def install(node: FlexNode, driver: str, mounting: str) -> None:
    """Install a driver that writes down each mount and then does this."""
    place = node.flex / f"example.com~{driver}"
    place.mkdir(parents=True)
    draft = place / f".{driver}"
    draft.write_text(
        "#!/bin/sh\n"
        'case "$1" in\n'
        """init) echo '{"status": "Success", "capabilities": {"attach": false}}' ;;\n"""
        f"mount) echo mount >> {node.top}/{driver}.calls; {mounting} ;;\n"
        """*) echo '{"status": "Success"}' ;;\n"""
        "esac\n"
    )
    draft.chmod(0o755)
    draft.rename(place / driver)


def calls(node: FlexNode, driver: str) -> int:
    return (node.top / f"{driver}.calls").read_text().count("mount")


def use(node: LiveNode, name: str, volume: dict[str, object]) -> None:
    """Let an unrelated Pod come and go."""
    node.put(name, volume)
    node.tell("wait", name)
    node.remove(name)
    node.tell("wait", name, "--for", "unmounted")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[FlexNode]:
    with flex_node(tmp_path, workers=WORKERS, operation_deadline="150ms", **SHORT) as node:
        yield node


def test_forty_retries_that_hang_cost_no_more_than_the_first_and_others_come_and_go(node: FlexNode) -> None:
    install(node, "silent", "exec sleep 1000")
    use(node, "before", MEMORY)
    before = cost_of(node)
    for number in range(HANGING):
        node.put_flex(f"hanging-{number}", "silent")
    bound = Cost(before.threads + WORKERS + ROOM * HANGING, HANGING, before.descriptors + (HANGING + 1) * DESCRIPTORS)
    for number in range(10):
        node.await_event("FailedMount", "did not end before its deadline", (number + 1) * RETRIES * HANGING // 10)
        use(node, f"other-{number}", (DISK, MEMORY)[number % 2])
        cost = cost_of(node)
        assert cost.threads <= bound.threads
        assert cost.children <= bound.children
        assert cost.descriptors <= bound.descriptors
    assert calls(node, "silent") >= RETRIES * HANGING
    assert "does not answer since" in node.tell("why", "hanging-0")
    for number in range(HANGING):
        node.remove(f"hanging-{number}")
    for number in range(HANGING):
        node.tell("wait", f"hanging-{number}", "--for", "unmounted")
    eventually(lambda: cost_of(node).children == 0, "the end of the last helper")


def test_a_helper_that_cannot_be_killed_is_named_keeps_its_volume_and_no_other_comes_beside_it(node: FlexNode) -> None:
    hung = node.top / "hung"
    hung.mkdir()
    with SilentFuse(hung) as fuse:
        fuse.serve_until_asked()
        install(node, "stuck", f"exec stat {hung}/x")
        node.put_flex("hanging", "stuck")
        eventually(
            lambda: "cannot be killed: it waits in the kernel" in node.tell("why", "hanging"),
            lambda: node.tell("why", "hanging"),
        )
        node.await_event("OperationStuck", "mount does not return")
        for number in range(5):
            use(node, f"other-{number}", MEMORY)
        assert cost_of(node).children == 1
        assert calls(node, "stuck") == 1
        node.daemon.terminate()
        assert node.daemon.wait(PATIENCE) == 0, "nothing that hangs delays the end"
        node.start()
        assert "an earlier volmgrd's `stuck mount`" in node.tell("why", "hanging")
        node.remove("hanging")
        use(node, "later", DISK)
        assert calls(node, "stuck") == 1
        assert node.run("wait", "hanging", "--for", "unmounted", "--timeout", "0s").returncode == 1
    node.tell("wait", "hanging", "--for", "unmounted")


def test_a_mounted_volume_that_hangs_is_named_also_after_a_restart_and_nobody_else_waits(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"look_deadline": "300ms", "health_interval": "200ms", **SHORT}))
    with LiveNode(Path(sys.executable), tmp_path, "--config", str(config)) as node:
        node.put("hung", MEMORY)
        node.put("lives", MEMORY)
        node.tell("wait", "hung")
        node.tell("wait", "lives")
        with SilentFuse(node.volume("hung", EmptyDir.name)) as fuse:
            fuse.serve_until_asked()
            silent = "the FUSE server behind it has not answered"
            eventually(lambda: silent in node.tell("why", "hung"), lambda: node.tell("why", "hung"))
            use(node, "other", MEMORY)
            ids = node.mount_ids()[str(node.volume("lives", EmptyDir.name))]
            node.kill()
            node.start()
            use(node, "another", DISK)
            said = "a fuse.silent is mounted there"
            eventually(lambda: said in node.tell("why", "hung"), lambda: node.tell("why", "hung"))
            assert node.mount_ids()[str(node.volume("lives", EmptyDir.name))] == ids
            node.remove("hung")
            use(node, "third", DISK)
        node.tell("wait", "hung", "--for", "unmounted")
        assert not (node.root / "pods/uid-hung").exists()
