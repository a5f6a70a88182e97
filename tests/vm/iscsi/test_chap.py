"""CHAP with a real target: right and wrong secrets, and nobody sees them in any process's arguments."""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pytest

from tests.vm.iscsi.site import IQN, Site, file_of, volume
from tests.vm.servers.lio import Chap, Target
from tests.vm.servers.node import VmNode

SESSION = Chap(user="user1", password="session-secret1", user_in="target1", password_in="mutual-secret1")
DISCOVERY = Chap(user="asker1", password="asking-secret1", user_in="asked1", password_in="asked-secret11")
PASSWORDS = (SESSION.password, SESSION.password_in, DISCOVERY.password, DISCOVERY.password_in)


class Sampler(threading.Thread):
    """Reads the arguments of every process again and again."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seen: set[bytes] = set()
        self._ends = threading.Event()

    def __enter__(self) -> Self:
        """Begin."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._ends.set()
        self.join()

    def run(self) -> None:
        while not self._ends.is_set():
            for pid in filter(str.isdecimal, os.listdir("/proc")):
                try:
                    self.seen.add(Path("/proc", pid, "cmdline").read_bytes())
                except OSError:
                    continue


def lines(prefix: str, chap: Chap) -> dict[str, str]:
    """Give the keys of a Secret that prove one thing."""
    return {
        f"{prefix}.username": chap.user,
        f"{prefix}.password": chap.password,
        f"{prefix}.username_in": chap.user_in,
        f"{prefix}.password_in": chap.password_in,
    }


def secret(session: Chap = SESSION, discovery: Chap = DISCOVERY) -> Mapping[str, Any]:
    """Give a Secret."""
    data = {**lines("node.session.auth", session), **lines("discovery.sendtargets.auth", discovery)}
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items() if value}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "chap"}, "data": encoded}


def proving_target(site: Site) -> Target:
    """Give a target that lets nobody in, or ask, who does not prove who it is."""
    site.lio.discovery_needs(DISCOVERY)
    target = site.lio.target(IQN, chap=SESSION)
    target.map(0, site.lio.backstore("proved"))
    return target


def proved(target: Target) -> dict[str, Any]:
    """Give a volume that proves all that can be proved."""
    return volume(target, chapAuthDiscovery=True, chapAuthSession=True, secretRef={"name": "chap"})


def test_secrets_are_proved_and_seen_by_nobody(node: VmNode, site: Site) -> None:
    target = proving_target(site)
    node.put("secret.json", secret())
    with Sampler() as sampler:
        node.mounted_pod("first", proved(target))
    file_of(node, "first").write_text("proved")
    logins = [each for each in sampler.seen if each.startswith(b"iscsiadm\0") or b"/iscsiadm\0" in each]
    assert any(b"--login" in each for each in logins), sampler.seen
    for password in PASSWORDS:
        assert not [each for each in sampler.seen if password.encode() in each]
        assert password not in node.log_text()
        assert not holds(node.root, password)
    assert site.initiator.discoveries() == ()
    for record in site.initiator.records():
        assert os.stat(Path("/etc/iscsi/nodes", record)).st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_a_wrong_secret_is_told_and_leaves_nothing_until_it_is_right(node: VmNode, site: Site) -> None:
    target = proving_target(site)
    node.put("secret.json", secret(session=Chap(user="user1", password="wrong-secret12")))
    node.put_pod("first", proved(target))
    node.until_why("first", "does not let this node in")
    assert "wrong-secret12" not in node.why("first") + node.log_text()
    node.put("secret.json", secret())
    node.wait("first")


@pytest.mark.slow
def test_a_wrong_secret_of_discovery_is_told(node: VmNode, site: Site) -> None:
    target = proving_target(site)
    node.put("secret.json", secret(discovery=Chap(user="asker1", password="wrong-secret12")))
    node.put_pod("first", proved(target))
    node.until_why("first", "asking portal 127.0.0.1:3260 for its targets failed")
    node.put("secret.json", secret())
    node.wait("first")


@pytest.mark.slow
def test_a_target_that_does_not_prove_who_it_is_is_refused(node: VmNode, site: Site) -> None:
    target = proving_target(site)
    wrong = Chap(user="user1", password="session-secret1", user_in="target1", password_in="other-secret12")
    node.put("secret.json", secret(session=wrong))
    node.put_pod("first", proved(target))
    node.until_why("first", "logging in to")
    node.put("secret.json", secret())
    node.wait("first")


def holds(top: Path, text: str) -> list[str]:
    """Name the files below a directory, on its own file system, that have a text in them."""
    found: list[str] = []
    for place, directories, files in os.walk(top):
        directories[:] = [name for name in directories if not os.path.ismount(os.path.join(place, name))]
        found += [name for name in files if text.encode() in Path(place, name).read_bytes()]
    return found
