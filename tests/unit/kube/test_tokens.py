"""Tokens of an API server: what is asked for, what is kept, when it is asked again, and what failures say."""

from __future__ import annotations

import datetime as dt
import logging
from dataclasses import replace

import jwt
import pytest

from tests.unit.kube.memory_api import Document, MemoryApi
from tests.unit.kube.recording import Clock
from volmgr.errors import OperationError, SpecError, TransientError
from volmgr.kube.errors import ApiError
from volmgr.kube.tokens import KubeTokens
from volmgr.model.kube import KubeSettings
from volmgr.model.meta import ObjectMeta
from volmgr.model.objects import ServiceAccount
from volmgr.model.pod import Pod, PodSpec
from volmgr.model.tokens import Token
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod
from volmgr_projected.plugin import Projected

START = 1_000_000.0
POD = Pod(metadata=ObjectMeta(name="web", namespace="shop", uid="uid-web"), spec=PodSpec(service_account_name="seller"))
PATH = "/api/v1/namespaces/shop/serviceaccounts/seller/token"


class Issuer:
    """What kube-apiserver does with a TokenRequest."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.longest = 1 << 32
        self.account_uid = "uid-seller"
        self.issued = 0

    def __call__(self, body: Document) -> Document:
        spec = body["spec"]
        life = min(spec["expirationSeconds"], self.longest)
        self.issued += 1
        end = int(self.clock.now) + life
        bound = spec["boundObjectRef"]
        claims = {
            "sub": "system:serviceaccount:shop:seller",
            "aud": spec["audiences"] or ["https://api"],
            "iat": int(self.clock.now),
            "exp": end,
            "jti": str(self.issued),
            "kubernetes.io": {
                "namespace": "shop",
                "pod": {"name": bound["name"], "uid": bound["uid"]},
                "serviceaccount": {"name": "seller", "uid": self.account_uid},
            },
        }
        when = dt.datetime.fromtimestamp(end, dt.UTC).isoformat().replace("+00:00", "Z")
        token = jwt.encode(claims, "a key that is long enough for HS256")
        return {
            **body,
            "spec": {**spec, "expirationSeconds": life},
            "status": {"token": token, "expirationTimestamp": when},
        }


class Kept:
    """Tokens on a disk, which may be full."""

    def __init__(self) -> None:
        self.tokens: dict[tuple[str, str], bytes] = {}
        self.full = False

    def get(self, pod_uid: str, key: str) -> bytes | None:
        return self.tokens.get((pod_uid, key))

    def put(self, pod_uid: str, key: str, token: bytes, expires_at: float) -> None:
        assert expires_at > START
        if self.full:
            raise OperationError("cannot write tokens: no space left on device")
        self.tokens[pod_uid, key] = token

    def forget(self, pod_uid: str) -> None:
        self.tokens = {key: token for key, token in self.tokens.items() if key[0] != pod_uid}


class Site:
    """An API server that issues tokens, and who asks it."""

    def __init__(self) -> None:
        self.clock = Clock(START)
        self.issuer = Issuer(self.clock)
        self.api = MemoryApi()
        self.api.posted["/token"] = self.issuer
        self.kept = Kept()
        self.tokens = self.restarted()

    def restarted(self) -> KubeTokens:
        return KubeTokens(self.api, KubeSettings(), kept=self.kept, wall=self.clock)

    def issue(
        self,
        pod: Pod = POD,
        *,
        audience: str = "vault",
        seconds: int = 600,
        held: str = "",
        account: ServiceAccount | None = None,
    ) -> Token:
        return self.tokens.issue(pod, audience=audience, expiration_seconds=seconds, held=held, account=account)


@pytest.fixture
def site() -> Site:
    return Site()


def test_a_token_is_asked_for_the_audience_and_life_bound_to_the_pod(site: Site) -> None:
    token = site.issue()
    assert (token.issued_at, token.expires_at) == (START, START + 600)
    ((path, body),) = site.api.asked("POST")
    assert path == PATH
    assert body["spec"] == {
        "audiences": ["vault"],
        "expirationSeconds": 600,
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-web"},
    }


def test_no_audience_leaves_it_to_the_server(site: Site) -> None:
    site.issue(audience="")
    assert site.api.asked("POST")[0][1]["spec"]["audiences"] == []


def test_the_same_wish_is_asked_once_until_80_percent_of_the_life(site: Site) -> None:
    first = site.issue()
    site.clock.now += 479
    assert site.issue().value == first.value
    site.clock.now += 1
    second = site.issue()
    assert second.value != first.value
    assert site.issuer.issued == 2


def test_a_token_of_a_week_is_replaced_after_a_day(site: Site) -> None:
    first = site.issue(seconds=7 * 86400)
    site.clock.now += 86399
    assert site.issue(seconds=7 * 86400).value == first.value
    site.clock.now += 1
    assert site.issue(seconds=7 * 86400).value != first.value


def test_another_audience_life_pod_or_account_is_another_token(site: Site) -> None:
    account = ServiceAccount(metadata=ObjectMeta(name="seller", uid="uid-seller"))
    other = replace(POD, metadata=replace(POD.metadata, uid="uid-other"))
    values = {
        site.issue().value,
        site.issue(audience="").value,
        site.issue(seconds=3600).value,
        site.issue(other).value,
        site.issue(account=account).value,
    }
    assert len(values) == 5


def test_a_life_that_the_server_shortens_is_the_token_s_own(site: Site) -> None:
    site.issuer.longest = 900
    token = site.issue(seconds=86400)
    assert token.due_at == START + 720
    site.tokens = site.restarted()
    site.kept.tokens.clear()
    assert site.issue(seconds=86400, held=token.value).value == token.value


@pytest.mark.parametrize("seconds", [0, 599, (1 << 32) + 1])
def test_a_life_that_no_server_gives_is_refused_before_it_is_asked(site: Site, seconds: int) -> None:
    with pytest.raises(SpecError, match=f"expirationSeconds is {seconds}; write a number from 600"):
        site.issue(seconds=seconds)
    assert site.api.requests == []


def test_a_token_in_the_volume_is_taken_over_by_a_new_process(site: Site) -> None:
    held = site.issue().value
    site.tokens, site.kept = KubeTokens(site.api, KubeSettings(), wall=site.clock), Kept()
    assert site.issue(held=held).value == held
    assert site.issuer.issued == 1


@pytest.mark.parametrize(
    "held",
    [
        "no token",
        "a.b.c",
        "a.!!!.c",
        "a.W10.c",  # []
        "a.eyJzdWIiOjF9.c",  # {"sub":1}
    ],
)
def test_what_lies_in_the_volume_and_is_no_token_is_replaced(site: Site, held: str) -> None:
    assert site.issue(held=held).value != held


def test_a_token_of_another_pod_audience_account_or_life_is_not_taken_over(site: Site) -> None:
    other = replace(POD, metadata=replace(POD.metadata, uid="uid-other"))
    account = ServiceAccount(metadata=ObjectMeta(name="seller", uid="made-anew"))
    for held in (site.issue(other), site.issue(audience="bank"), site.issue(seconds=3600)):
        fresh = KubeTokens(site.api, KubeSettings(), wall=site.clock)
        found = fresh.issue(POD, audience="vault", expiration_seconds=600, held=held.value)
        assert found.value != held.value
    mine = site.issue()
    fresh = KubeTokens(site.api, KubeSettings(), wall=site.clock)
    found = fresh.issue(POD, audience="vault", expiration_seconds=600, account=account, held=mine.value)
    assert found.value != mine.value


def test_a_refresh_that_fails_gives_the_old_token_until_it_ends_and_never_after(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    first = site.issue()
    site.api.down = True
    site.clock.now += 480
    old = site.issue()
    assert old.value == first.value
    assert site.clock.now < old.due_at <= site.clock.now + 1
    assert "the token of pod shop/web for audience vault is due" in caplog.text
    assert first.value not in caplog.text
    site.clock.now = START + 600
    with pytest.raises(TransientError, match="waits for the API server"):
        site.issue(held=first.value)


def test_a_refresh_that_goes_on_failing_is_tried_less_and_less_often_and_never_rarer_than_twice_a_minute(
    site: Site,
) -> None:
    site.issue(seconds=86400)
    site.api.down = True
    site.clock.now += 0.8 * 86400
    pauses: list[float] = []
    for _ in range(10):
        again = site.issue(seconds=86400).due_at
        pauses.append(again - site.clock.now)
        site.clock.now = again
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.5, 30.0)
    asked = len(site.api.requests)
    site.clock.now -= 1  # before its time nobody is asked
    site.issue(seconds=86400)
    assert len(site.api.requests) == asked


def test_five_failures_around_80_percent_leave_a_fresh_token_a_minute_after_the_server_is_back(site: Site) -> None:
    site.issue()
    site.api.refusal = ApiError("500 Internal Server Error", status=500)
    site.clock.now += 480
    token = site.issue()
    for _ in range(4):
        site.clock.now = token.due_at
        token = site.issue()
    site.api.refusal = None
    back = site.clock.now
    while token.expires_at < back + 500:
        assert site.clock.now < back + 60
        site.clock.now = token.due_at
        token = site.issue()
    assert token.again_at is None


def test_the_pause_begins_anew_after_a_refresh_that_worked(site: Site) -> None:
    site.issue()
    for _ in range(2):
        site.api.down = True
        site.clock.now += 480
        first = site.issue()
        assert first.due_at - site.clock.now == 0.5
        site.api.down = False
        site.clock.now = first.due_at
        site.issue()


def test_a_pod_that_is_gone_leaves_nothing(site: Site) -> None:
    site.issue()
    site.tokens.forget(POD.uid)
    assert site.kept.tokens == {}
    site.issue()
    assert site.issuer.issued == 2


def test_a_kept_token_is_given_without_the_server_while_it_is_good(site: Site) -> None:
    first = site.issue()
    site.tokens = site.restarted()
    site.api.down = True
    assert site.issue().value == first.value
    site.clock.now += 599
    assert site.issue().value == first.value
    site.clock.now += 1
    with pytest.raises(TransientError):
        site.issue()


def test_a_token_that_cannot_be_kept_is_given_all_the_same(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.kept.full = True
    assert site.issue().value
    assert "cannot be kept over a restart: cannot write tokens" in caplog.text


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ApiError("no answer"), TransientError, "waits for the API server: no answer"),
        (
            ApiError('serviceaccounts "seller" not found', status=404, reason="NotFound"),
            TransientError,
            "needs ServiceAccount shop/seller",
        ),
        (ApiError("403 Forbidden; grant it", status=403), OperationError, "403 Forbidden; grant it"),
        (ApiError("500 Internal Server Error", status=500), OperationError, "500 Internal"),
    ],
)
def test_a_failure_says_who_must_act(site: Site, error: ApiError, kind: type[Exception], message: str) -> None:
    site.api.refusal = error
    with pytest.raises(kind, match=message):
        site.issue()


def test_an_answer_that_is_no_token_request_is_named(site: Site) -> None:
    site.api.posted["/token"] = lambda body: {**body, "status": {}}
    with pytest.raises(OperationError, match="answered with no TokenRequest"):
        site.issue()


def test_no_token_is_in_any_text(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        token = site.issue()
        site.api.down = True
        site.clock.now += 500
        old = site.issue()
    assert token.value not in caplog.text + repr(token) + repr(old) + repr(site.tokens)


class Node(TestNode):
    """A node whose tokens are those of an API server that has the node's clock."""

    site: Site

    def left(self) -> float:
        """Seconds until the token in the volume ends."""
        data = self.host.atomic.read(self.host.paths.volume("uid-web", Projected.name, "v"), "token")
        claims = jwt.decode((data or b"").decode(), options={"verify_signature": False})
        return float(claims["exp"]) - self.now


@pytest.fixture
def node() -> Node:
    """A node with a Pod that has a token of 10 min."""
    host, site = FakeHost(), Site()
    found = Node(host, plugins_of(Projected()))
    found.now, found.site = START, site
    host.with_tokens(KubeTokens(site.api, KubeSettings(), wall=lambda: found.now))
    source = {"serviceAccountToken": {"path": "token", "audience": "vault", "expirationSeconds": 600}}
    volume = {"name": "v", "projected": {"sources": [source]}}
    found.apply(pod("web", volume, uid="uid-web", metadata={"namespace": "shop"}, serviceAccountName="seller"))
    assert found.is_mounted("uid-web")
    return found


def advance(node: Node, seconds: int) -> None:
    """Let time pass second by second, on the server, too."""
    for _ in range(seconds):
        node.site.clock.now = node.now + 1
        node.advance(1)


@pytest.mark.parametrize("failures", [60, 119, 130, 4 * 3600])
def test_once_the_server_is_back_for_a_minute_the_token_in_the_volume_is_fresh(node: Node, failures: int) -> None:
    """k#138689: down from 80 % of the life on, for less than what is left, just beyond, and for hours."""
    advance(node, 479)
    assert node.left() == 121
    node.site.api.down = True
    advance(node, failures)
    assert node.is_mounted("uid-web")
    node.site.api.down = False
    advance(node, 60)
    assert node.left() > 500


def test_a_server_that_fails_only_now_and_then_never_costs_a_token_its_life(node: Node) -> None:
    for minute in range(180):
        node.site.api.down = minute % 3 == 1
        advance(node, 60)
        assert node.left() > 0
    assert node.site.issuer.issued < 40
