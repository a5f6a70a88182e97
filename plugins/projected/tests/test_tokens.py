"""Tokens in a projected volume, by the real issuer and a clock of its own: when they are replaced, and when not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jwt
import pytest

from volmgr.desk import Outside
from volmgr.host.tokens import LocalTokens
from volmgr.model.objects import ServiceAccount
from volmgr.model.pod import Pod
from volmgr.model.tokens import Token, TokenIssuer
from volmgr.plugin import OperationError
from volmgr.report.metrics import metrics
from volmgr.report.why import why_lines
from volmgr.testing import FakeHost, Fault, FaultHost, Killed
from volmgr.testing.fault_host import When
from volmgr.testing.issuer import ISSUER, issuer_of
from volmgr.testing.node import TestNode, plugins_of, pod
from volmgr_projected.plugin import Projected

TOKEN = {"path": "token", "audience": "vault", "expirationSeconds": 600}
SOURCES: list[Mapping[str, object]] = [{"serviceAccountToken": TOKEN}, {"configMap": {"name": "settings"}}]
UID = "uid-web"


class Faulty:
    """The real issuer, which does not answer while it is `down`."""

    def __init__(self, inner: LocalTokens) -> None:
        self.inner = inner
        self.down = False
        self.asked = 0

    def issue(
        self,
        pod: Pod,
        *,
        audience: str,
        expiration_seconds: int,
        account: ServiceAccount | None = None,
        held: str = "",
    ) -> Token:
        self.asked += 1
        if self.down:
            raise OperationError("the issuer does not answer")
        return self.inner.issue(
            pod, audience=audience, expiration_seconds=expiration_seconds, account=account, held=held
        )


class Node(TestNode):
    """A node whose issuer can fail."""

    issuer: Faulty
    ahead = 0.0
    """Seconds by which the time of day is ahead of the clock that timers use."""

    def _outside(self) -> Outside:
        return replace(super()._outside(), wall=self.wall)

    def wall(self) -> float:
        return self.now + self.ahead

    def token(self) -> str:
        data = self.host.atomic.read(self.host.paths.volume(UID, Projected.name, "v"), "token")
        return (data or b"").decode()

    def claims(self) -> dict[str, Any]:
        return jwt.decode(self.token(), options={"verify_signature": False})

    def left(self) -> float:
        """Seconds until the token in the volume ends."""
        return float(self.claims()["exp"]) - self.now


def volume(*sources: Mapping[str, object]) -> dict[str, object]:
    return {"name": "v", "projected": {"sources": list(sources)}}


def config_map(**data: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": data}


def started(host: FakeHost | FaultHost, now: float = 1_000_000.0) -> Node:
    """Start a node whose issuer has the node's clock."""
    found = Node(host, plugins_of(Projected()), sources=("directory", "api"))
    found.now = now
    found.issuer = Faulty(issuer_of(host, found.wall))
    host.with_tokens(found.issuer)
    return found


@pytest.fixture
def node() -> Node:
    found = started(FakeHost())
    found.put_file("settings.json", config_map(a="1"))
    found.put_file("web.json", pod("web", volume(*SOURCES), uid=UID))
    found.sources_ready()
    return found


def test_the_token_is_bound_to_the_pod_for_the_audience_and_time_that_were_asked_for(node: Node) -> None:
    assert node.is_mounted(UID)
    claims = node.claims()
    assert claims["aud"] == ["vault"]
    assert claims["sub"] == "system:serviceaccount:default:default"
    assert claims["kubernetes.io"]["pod"] == {"name": "web", "uid": UID}
    assert (claims["iat"], claims["exp"]) == (node.now, node.now + 600)


def test_a_token_is_replaced_at_80_percent_of_its_life_and_not_before(node: Node) -> None:
    first = node.token()
    node.advance(479)
    assert node.token() == first
    node.advance(1)
    assert node.token() != first
    assert node.left() == 600


def test_over_a_day_no_token_in_the_volume_ever_has_less_than_a_fifth_of_its_life_left(node: Node) -> None:
    for _ in range(24 * 60):
        node.advance(60)
        assert node.left() > 60
    assert node.issuer.asked == 1 + 24 * 3600 // 480


def test_a_token_that_lives_for_a_week_is_replaced_after_a_day() -> None:
    host = FakeHost()
    node = Node(host, plugins_of(Projected()))
    host.with_tokens(issuer_of(host, lambda: node.now))
    long = {"serviceAccountToken": {"path": "token", "expirationSeconds": 7 * 86400}}
    node.apply(pod("web", volume(long), uid=UID))
    first = node.token()
    node.advance(86399)
    assert node.token() == first
    node.advance(1)
    assert node.token() != first


def test_a_token_that_the_issuer_makes_shorter_than_asked_for_is_replaced_in_its_own_time() -> None:
    host = FakeHost()
    node = Node(host, plugins_of(Projected()))
    host.with_tokens(issuer_of(host, lambda: node.now, TokenIssuer(issuer=ISSUER, max_expiration=900.0)))
    node.apply(pod("web", volume({"serviceAccountToken": {"path": "token", "expirationSeconds": 86400}}), uid=UID))
    assert node.left() == 900
    node.advance(720)
    assert node.left() == 900


def test_a_changed_config_map_reaches_the_volume_with_the_token_that_is_there(node: Node) -> None:
    first = node.token()
    node.advance(200)
    node.put_file("settings.json", config_map(a="2"))
    assert node.host.atomic.read(node.host.paths.volume(UID, Projected.name, "v"), "a") == b"2"
    assert node.token() == first
    node.advance(279)
    assert node.token() == first
    node.advance(1)  # 480 s after it was issued, not after the ConfigMap changed
    assert node.token() != first


def test_a_restart_keeps_the_token_and_the_next_comes_when_it_is_due(node: Node) -> None:
    first = node.token()
    node.advance(100)
    node.start()
    node.settle()
    node.sources_ready()
    node.put_file("web.json", pod("web", volume(*SOURCES), uid=UID))
    assert node.is_mounted(UID)
    node.advance(379)
    assert node.token() == first
    node.advance(1)
    assert node.token() != first


def test_a_token_that_ended_while_the_daemon_was_down_is_replaced_at_once_at_its_start(node: Node) -> None:
    first = node.token()
    node.now += 3600
    node.start()
    node.settle()
    node.advance(0)
    assert node.token() != first
    assert node.left() == 600


def test_a_restart_without_a_record_of_the_mount_keeps_a_token_that_is_good(node: Node) -> None:
    first = node.token()
    records = node.host.paths.state / "mounts" / UID
    for name in node.host.files.names(records):
        node.host.files.remove_file(records / name)
    node.now += 100
    node.start()
    node.sources_ready()
    assert node.is_mounted(UID)
    assert node.token() == first
    node.advance(380)
    assert node.token() != first


def test_five_failures_around_80_percent_leave_no_token_that_has_ended(node: Node) -> None:
    node.advance(479)
    node.issuer.down = True
    asked = node.issuer.asked
    while node.issuer.asked < asked + 5:
        node.advance(1)
        assert node.left() > 0
    node.issuer.down = False
    node.advance(30)
    assert node.left() > 560


def test_an_issuer_that_is_back_after_hours_is_asked_within_half_a_minute(node: Node) -> None:
    node.issuer.down = True
    node.advance(4 * 3600)
    assert node.left() < 0
    node.issuer.down = False
    node.advance(30)
    assert node.left() > 560


def test_a_refresh_that_fails_is_named_with_its_reason_and_next_try(node: Node) -> None:
    node.issuer.down = True
    node.advance(500)
    text = "\n".join(why_lines(node.world, UID))
    assert "mount failed" in text
    assert "the issuer does not answer" in text
    assert "next try at" in text
    gauge = next(each for each in metrics(node.world) if each.name == "volmgr_refresh_overdue_seconds")
    assert gauge.values == {(Projected.name,): 20.0}
    node.issuer.down = False
    node.advance(30)
    assert node.is_mounted(UID)


def test_what_failed_for_another_reason_does_not_keep_a_due_token_waiting(node: Node) -> None:
    node.advance(300)
    node.issuer.down = True
    node.put_file("web.json", pod("web", volume(*SOURCES[:1], {"configMap": {"name": "none"}}), uid=UID))
    node.advance(179)
    node.issuer.down = False
    node.advance(31)
    assert node.left() > 0


def test_a_token_of_a_pod_that_has_left_is_replaced_while_its_containers_run(node: Node) -> None:
    hold = node.hold(UID, 4711)
    node.remove_file("web.json")
    for _ in range(20):
        node.advance(60)
        assert node.left() > 60
    node.release(hold)
    assert node.is_unmounted(UID)


def test_a_pod_is_mounted_while_its_token_is_replaced_and_while_that_fails(node: Node) -> None:
    node.issuer.down = True
    node.advance(500)
    assert node.is_mounted(UID)


def test_a_config_map_that_changes_while_no_token_is_to_be_had_is_not_forgotten(node: Node) -> None:
    node.issuer.down = True
    node.advance(500)
    node.put_file("settings.json", config_map(a="2"))
    assert not node.is_mounted(UID)
    node.issuer.down = False
    node.advance(30)
    assert node.is_mounted(UID)
    assert node.host.atomic.read(node.host.paths.volume(UID, Projected.name, "v"), "a") == b"2"


def test_a_service_account_that_was_made_anew_gives_a_new_token(node: Node) -> None:
    first = node.claims()
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "uid": "sa-1"}}
    node.put_file("account.json", account)
    assert node.claims()["kubernetes.io"]["serviceaccount"] == {"name": "default", "uid": "sa-1"}
    account["metadata"] = {"name": "default", "uid": "sa-2"}
    node.put_file("account.json", account)
    assert node.claims()["kubernetes.io"]["serviceaccount"]["uid"] == "sa-2"
    assert first["kubernetes.io"]["serviceaccount"]["uid"] not in {"sa-1", "sa-2"}


def test_a_clock_that_is_set_forward_makes_the_token_due_within_a_minute(node: Node) -> None:
    node.ahead = 3600.0
    node.advance(60)
    assert node.claims()["exp"] == node.now + node.ahead + 600


@pytest.mark.parametrize("restart", [False, True])
def test_a_clock_that_is_set_back_makes_a_token_within_a_minute_that_is_good_already(
    node: Node, *, restart: bool
) -> None:
    node.ahead = -86400.0
    if restart:
        node.start()
        node.settle()
    node.advance(60)
    assert node.claims()["nbf"] <= node.wall()
    first = node.token()
    node.advance(419)
    assert node.token() == first
    node.advance(61)
    assert node.token() != first


def test_a_restart_with_another_issuer_replaces_the_token(node: Node) -> None:
    node.issuer.inner = issuer_of(node.host, node.wall, TokenIssuer(issuer="https://other.example"))
    node.start()
    node.settle()
    node.sources_ready()
    node.put_file("web.json", pod("web", volume(*SOURCES), uid=UID))
    node.advance(5)
    assert node.claims()["iss"] == "https://other.example"


def test_no_token_is_recorded_logged_or_told(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    seen = {node.token()}
    for _ in range(3):
        node.advance(480)
        seen.add(node.token())
    host = node.host
    assert isinstance(host, FakeHost)
    inside = host.paths.volume(UID, Projected.name, "v")
    texts = [text for path, text in host.tree(host.paths.root).items() if inside not in path.parents]
    texts += [json.dumps([event.message, event.reason]) for event in node.world.events.after(0)]
    texts += [caplog.text, repr(node.world), "\n".join(why_lines(node.world, UID))]
    for token in seen:
        assert not any(token.split(".")[2] in text for text in texts)


@pytest.mark.parametrize("when", [When.BEFORE, When.AFTER])
def test_killed_at_any_call_while_it_replaces_a_token_the_next_start_has_a_good_one(when: When) -> None:
    calls, killed = 1, True
    while killed:
        host = FakeHost()
        faulty = FaultHost(host)
        node = started(faulty)
        node.apply(pod("web", volume(*SOURCES[:1]), uid=UID))
        node.advance(1)  # what was mounted is looked for in the table of mounts
        faulty.faults = [Fault.kill(len(faulty.trace) + calls, when)]
        killed = False
        try:
            node.advance(479)
        except Killed:
            killed = True
            after = started(host, node.now)
            after.sources_ready()
            after.advance(0)
            assert after.is_mounted(UID)
            node = after
        faulty.faults = []
        assert node.left() == 600
        calls += 1
    assert calls > 5
