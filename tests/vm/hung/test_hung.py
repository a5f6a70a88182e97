"""Three servers that hang at once: what they cost stays bounded over many retries, and nobody else waits for them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import pytest

from tests.eventually import eventually
from tests.root.acceptance.outside import disk, memory
from tests.vm.cephfs.node import cephfs
from tests.vm.nfs.node import nfs, volume_and_claim
from tests.vm.servers.ceph import Ceph
from tests.vm.servers.guest import load
from tests.vm.servers.iscsid import Iscsid
from tests.vm.servers.lio import PORT, Lio
from tests.vm.servers.nfs import Ganesha, KernelNfs
from tests.vm.servers.node import VmNode
from tests.vm.servers.packets import swallowed
from volmgr.cli.client import Client, quote

SILENT_PORTAL = "127.0.0.3"
IQN = "iqn.2026-01.io.test:hung"
EACH = 3
"""Pods that want a volume of each server that hangs."""
UNRELATED = 100
RETRIES = 40
ENDPOINT_OPERATIONS = 4
"""Operations at once per endpoint, by default."""
WORKERS = 8
ROOM = 2
"""Workers that each slow operation lets others have."""
DESCRIPTORS = 12
"""Of one helper: its pipes, its pidfd, its record, while they are made."""
QUICK: Mapping[str, Any] = {
    "operation_deadline": "4s",
    "quarantine_grace": "1s",
    "backoff_max": "200ms",
    "look_deadline": "2s",
}
SETTINGS: Mapping[str, Any] = {
    "kubernetes.io/nfs": {"force_after": 3.0, "answer_within": 2.0},
    "kubernetes.io/cephfs": {"client": "kernel", "force_after": 3.0, "answer_within": 3},
}


@dataclass(frozen=True, slots=True)
class Cost:
    """What the daemon has of what runs out."""

    threads: int = 0
    children: int = 0
    descriptors: int = 0

    def most(self, other: Cost) -> Cost:
        """Give the larger of each."""
        return Cost(
            max(self.threads, other.threads),
            max(self.children, other.children),
            max(self.descriptors, other.descriptors),
        )


@dataclass(frozen=True)
class Site:
    """The servers, and what a Pod says that wants a volume of each."""

    healthy: Path
    ganesha: Ganesha
    ceph: Ceph
    node: VmNode

    def unrelated(self, number: int) -> dict[str, Any]:
        """Give a volume of nobody who hangs: memory, a directory, an export of the healthy server."""
        return (memory(), disk(), nfs(self.healthy))[number % 3]

    def cost(self) -> Cost:
        """Count threads, children and open files of the daemon."""
        process = Path(f"/proc/{self.node.pid}")
        threads = os.listdir(process / "task")
        children = 0
        for thread in threads:
            with suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
                children += len((process / "task" / thread / "children").read_text().split())
        return Cost(len(threads), children, len(os.listdir(process / "fd")))

    def attempts(self, names: Sequence[str]) -> int:
        """Count how often mounts of some Pods were tried in vain."""
        with closing(Client(str(self.node.socket))) as client:
            found = [json.loads(client.get(f"/v1/pods/{quote(name)}/why"))["pods"][0] for name in names]
        return sum(volume["attempts"] for pod in found for volume in pod["volumes"])


@pytest.fixture
def site(top: Path) -> Iterator[Site]:
    load("fuse")
    with ExitStack() as stack:
        node = VmNode(top, plugins=SETTINGS, **QUICK)
        stack.callback(node.clear)
        stack.enter_context(node)  # before the servers, which leave the machine little time when they start
        server = stack.enter_context(KernelNfs())
        ganesha = stack.enter_context(Ganesha(Path("/srv/ganesha"), "a"))
        ceph = stack.enter_context(Ceph())
        lio = stack.enter_context(Lio())
        stack.enter_context(Iscsid())
        secret = Path("/etc/ceph/admin.secret")
        secret.touch(0o600)
        secret.write_text(f"{ceph.key}\n")
        target = lio.target(IQN, portals=(SILENT_PORTAL,))
        for number in range(EACH):
            target.map(number, lio.backstore(f"hung-{number}"))
        stack.callback(ceph.resume)
        stack.callback(ganesha.resume)
        yield Site(server.export("healthy"), ganesha, ceph, node)
        ceph.resume()
        ganesha.resume()
        for file in node.manifests.glob("*.json"):
            file.unlink()
        node.until_clean()


@dataclass(frozen=True, slots=True)
class Round:
    """What unrelated Pods, and the daemon with them, took."""

    mounted: Sequence[float]
    """Seconds until each was mounted."""
    gone: float
    """Seconds until all of them, told to leave at once, were."""
    cost: Cost


def come_and_go(site: Site, prefix: str) -> Round:
    """Let unrelated Pods come, one after the other, and all go again at once."""
    seconds: list[float] = []
    cost = Cost()
    for number in range(UNRELATED):
        began = time.monotonic()
        site.node.mounted_pod(f"{prefix}-{number}", site.unrelated(number))
        seconds.append(time.monotonic() - began)
        cost = cost.most(site.cost())
    began = time.monotonic()
    for number in range(UNRELATED):
        (site.node.manifests / f"{prefix}-{number}.json").unlink()
    for number in range(UNRELATED):
        site.node.wait(f"{prefix}-{number}", "unmounted")
        cost = cost.most(site.cost())
    return Round(seconds, time.monotonic() - began, cost)


def p95(seconds: Sequence[float]) -> float:
    return quantiles(seconds, n=20)[-1]


@pytest.mark.timeout(1800)
def test_three_servers_that_hang_harm_nobody_else_and_cost_no_more_over_forty_retries(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    def say(text: str) -> None:
        with capsys.disabled():
            print(f"\n{time.monotonic():.0f} s: {text}", flush=True)

    node = site.node
    say("the servers are there")
    node.put(
        "pv.json",
        *volume_and_claim(
            "dead", site.ganesha.directory("a"), "vers=4.1", *site.ganesha.options, server=site.ganesha.address
        ),
    )
    before = come_and_go(site, "before")
    idle = before.cost
    say(f"{UNRELATED} unrelated Pods have come and gone, {p95(before.mounted) * 1000:.0f} ms p95")
    hung: dict[str, list[str]] = {"nfs": [], "ceph": [], "iscsi": []}
    with swallowed(SILENT_PORTAL, PORT):
        site.ganesha.pause()
        site.ceph.pause_monitor()
        for number in range(EACH):
            disks = {"targetPortal": f"{SILENT_PORTAL}:{PORT}", "iqn": IQN, "lun": number}
            for kind, volume in (
                ("nfs", {"name": "v", "persistentVolumeClaim": {"claimName": "dead"}}),
                ("ceph", cephfs()),
                ("iscsi", {"name": "v", "iscsi": disks}),
            ):
                hung[kind].append(f"hung-{kind}-{number}")
                node.put_pod(hung[kind][-1], volume)
        node.until_why("hung-nfs-0", f"server {site.ganesha.address} does not answer since 20")
        node.until_why("hung-iscsi-0", f"portal {SILENT_PORTAL}:{PORT} does not answer since 20")
        node.until_why("hung-ceph-0", "does not answer since 20")
        say("three servers are silent")
        during = come_and_go(site, "during")
        say(f"{UNRELATED} unrelated Pods have come and gone, {p95(during.mounted) * 1000:.0f} ms p95")
        for names in hung.values():
            eventually(lambda names=names: site.attempts(names) >= 1, f"a retry of {names}")  # type: ignore[misc]
        everybody = [name for names in hung.values() for name in names]
        eventually(lambda: site.attempts(everybody) >= RETRIES, f"{RETRIES} retries")
        most = during.cost.most(site.cost())
        say(f"{site.attempts(everybody)} attempts")
    site.ganesha.resume()
    site.ceph.resume()
    at_once = ENDPOINT_OPERATIONS * len(hung) + 1
    bound = replace(
        idle,
        threads=idle.threads + WORKERS + ROOM * at_once,
        children=idle.children + at_once,
        descriptors=idle.descriptors + at_once * DESCRIPTORS,
    )
    for what, was, now in (
        ("p95 of mounts", p95(before.mounted), p95(during.mounted)),
        ("median of mounts", median(before.mounted), median(during.mounted)),
        ("until all were gone", before.gone, during.gone),
    ):
        say(f"{what}: {was * 1000:.0f} ms, {now * 1000:.0f} ms while three servers hang ({now / was:.2f} times)")
    say(f"most {most}, idle {idle}, bound {bound}")
    assert most.threads <= bound.threads
    assert most.children <= bound.children
    assert most.descriptors <= bound.descriptors
    for name in everybody:
        node.wait(name)
        node.remove_pod(name)
    eventually(lambda: site.cost().children == 0, "the end of each helper")
