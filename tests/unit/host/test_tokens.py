"""The issuer of tokens: what they say, the key that signs them, and the key set with which others check them."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from volmgr.config import Config
from volmgr.errors import OperationError, PluginError, SpecError
from volmgr.host.interface import NoTokens
from volmgr.host.tokens import LocalTokens
from volmgr.model.meta import ObjectMeta
from volmgr.model.objects import ServiceAccount
from volmgr.model.pod import Pod, PodSpec
from volmgr.model.schema import SchemaError, load
from volmgr.model.tokens import Algorithm, Token, TokenIssuer
from volmgr.testing import FakeHost, Fault, FaultHost, Killed
from volmgr.testing.fault_host import When
from volmgr.testing.issuer import ISSUER, SETTINGS, issuer_of

POD = Pod(metadata=ObjectMeta(name="web", namespace="shop", uid="u-1"), spec=PodSpec(service_account_name="seller"))
HOUR = 3600


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


def issue(
    host: FakeHost, audience: str = "vault", seconds: int = HOUR, held: str = "", settings: TokenIssuer = SETTINGS
) -> Token:
    issuer = issuer_of(host, settings=settings)
    return issuer.issue(POD, audience=audience, expiration_seconds=seconds, held=held)


def key_set(host: FakeHost) -> list[dict[str, Any]]:
    keys: list[dict[str, Any]] = json.loads(host.content(host.paths.state / "tokens/jwks.json"))["keys"]
    return keys


def checked(host: FakeHost, token: str) -> Mapping[str, Any]:
    """Read a token as a verifier does: by the key set, which names the key."""
    kid = jwt.get_unverified_header(token)["kid"]
    key = jwt.PyJWK(next(each for each in key_set(host) if each["kid"] == kid))
    options: Any = {"verify_exp": False, "verify_nbf": False, "verify_iat": False}
    said: Mapping[str, Any] = jwt.decode(
        token, key, [key.algorithm_name], audience="vault", issuer=ISSUER, options=options
    )
    return said


@pytest.mark.parametrize("algorithm", ["ES256", "RS256"])
def test_a_token_is_checked_by_the_key_set_and_says_what_kube_apiserver_s_say(host: FakeHost, algorithm: str) -> None:
    options = TokenIssuer(issuer=ISSUER, algorithm=Algorithm(algorithm))
    tokens = LocalTokens(options, host.files, host.paths, node_name="n1", wall=host.clock)
    account = ServiceAccount(metadata=ObjectMeta(name="seller", namespace="shop", uid="sa-1"))
    token = tokens.issue(POD, audience="vault", expiration_seconds=HOUR, account=account)
    said = dict(checked(host, token.value))
    assert len(said.pop("jti")) == 36
    assert said == {
        "iss": ISSUER,
        "sub": "system:serviceaccount:shop:seller",
        "aud": ["vault"],
        "iat": 1000,
        "nbf": 1000,
        "exp": 1000 + HOUR,
        "kubernetes.io": {
            "namespace": "shop",
            "node": {"name": "n1"},
            "pod": {"name": "web", "uid": "u-1"},
            "serviceaccount": {"name": "seller", "uid": "sa-1"},
        },
    }
    assert jwt.get_unverified_header(token.value)["alg"] == algorithm
    assert (token.issued_at, token.expires_at, token.due_at) == (1000, 1000 + HOUR, 1000 + 0.8 * HOUR)


def test_a_service_account_without_an_object_has_a_uid_that_stays(host: FakeHost) -> None:
    accounts = {checked(host, issue(host).value)["kubernetes.io"]["serviceaccount"]["uid"] for _ in range(2)}
    assert len(accounts) == 1
    assert len(accounts.pop()) == 36


@pytest.mark.parametrize(("audiences", "aud"), [((), [ISSUER]), (("a", "b"), ["a", "b"])])
def test_an_empty_audience_is_the_issuer_s_own(host: FakeHost, audiences: tuple[str, ...], aud: list[str]) -> None:
    tokens = LocalTokens(TokenIssuer(issuer=ISSUER, audiences=audiences), host.files, host.paths)
    value = tokens.issue(POD, audience="", expiration_seconds=HOUR).value
    assert jwt.decode(value, options={"verify_signature": False})["aud"] == aud


@pytest.mark.parametrize("seconds", [0, -1, 599, (1 << 32) + 1])
def test_a_life_that_nobody_may_ask_for_is_refused_with_the_bounds(host: FakeHost, seconds: int) -> None:
    with pytest.raises(SpecError, match=rf"expirationSeconds is {seconds}; write a number from 600 to 4294967296"):
        issue(host, seconds=seconds)


@pytest.mark.parametrize("name", ["a:b", "../a", "a\nb", "A", "x" * 300])
def test_a_service_account_s_name_that_could_be_read_in_two_ways_is_refused(host: FakeHost, name: str) -> None:
    named = replace(POD, spec=replace(POD.spec, service_account_name=name))
    with pytest.raises(SpecError, match=r"serviceAccountName .* is no name; write"):
        issuer_of(host).issue(named, audience="vault", expiration_seconds=HOUR)


def test_a_life_beyond_the_configured_one_is_cut_to_it(host: FakeHost) -> None:
    assert (
        issue(host, seconds=86400, settings=TokenIssuer(issuer=ISSUER, max_expiration=1800.0)).expires_at == 1000 + 1800
    )


def test_the_token_that_there_is_stays_until_it_is_due(host: FakeHost) -> None:
    first = issue(host)
    host.advance(0.8 * HOUR - 1)
    assert issue(host, held=first.value) == first
    host.advance(1)
    assert issue(host, held=first.value).value != first.value


@pytest.mark.parametrize(
    "changes",
    [{"audience": "other"}, {"seconds": 7200}, {"settings": TokenIssuer(issuer="https://elsewhere.example")}],
)
def test_a_token_that_says_something_else_is_replaced(host: FakeHost, changes: dict[str, Any]) -> None:
    first = issue(host)
    assert issue(host, held=first.value, **changes).value != first.value


def test_a_token_that_the_key_did_not_sign_is_replaced(host: FakeHost) -> None:
    first = issue(host).value
    head, said, signature = first.split(".")
    for forged in (f"{head}.{said}.{signature[::-1]}", f"{head}.{said}.", "no token", "..", "\ufffd", "a.b.c"):
        value = issue(host, held=forged).value
        assert value != forged
        assert checked(host, value)["aud"] == ["vault"]


def test_a_token_from_the_future_is_replaced_when_the_clock_was_set_back(host: FakeHost) -> None:
    host.now = 5000.0
    first = issue(host)
    host.now = 1000.0
    assert issue(host, held=first.value).issued_at == 1000


def test_the_key_is_made_once_for_root_alone_and_its_public_part_for_everybody(host: FakeHost) -> None:
    place = host.paths.state / "tokens"
    issuer_of(host).prepare()
    first = host.tree(place)
    assert first[place].startswith("directory 700")
    assert first[place / "key.pem"].startswith("file 600 0:0 b'-----BEGIN PRIVATE KEY-----")
    assert first[place / "jwks.json"].startswith("file 644")
    assert "PRIVATE" not in first[place / "jwks.json"]
    assert key_set(host)[0].keys() == {"kty", "crv", "x", "y", "kid", "alg", "use"}
    issuer_of(host).prepare()
    issue(host)
    assert host.tree(place) == first


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_a_damaged_key_is_named_and_never_replaced(host: FakeHost, content: bytes) -> None:
    issuer_of(host).prepare()
    path = host.paths.state / "tokens/key.pem"
    host.put(path, content, 0o600)
    with pytest.raises(OperationError, match=r"cannot sign tokens with .*/tokens/key\.pem: .*move it away") as refused:
        issue(host)
    assert "AAAA" not in str(refused.value)
    assert host.content(path) == content


def test_a_key_that_cannot_be_used_says_which_can(host: FakeHost) -> None:
    key = ec.generate_private_key(ec.SECP384R1())
    pems = [
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")),
        key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, BestAvailableEncryption(b"secret")),
    ]
    issuer_of(host).prepare()
    for pem in pems:
        host.put(host.paths.state / "tokens/key.pem", pem, 0o600)
        with pytest.raises(OperationError, match="without a password"):
            issue(host)


def test_a_key_that_was_put_back_signs_at_once(host: FakeHost) -> None:
    issuer = issuer_of(host)
    issuer.prepare()
    path = host.paths.state / "tokens/key.pem"
    good = host.content(path)
    host.put(path, b"damaged", 0o600)
    with pytest.raises(OperationError):
        issuer.issue(POD, audience="vault", expiration_seconds=HOUR)
    host.put(path, good, 0o644)
    checked(host, issuer.issue(POD, audience="vault", expiration_seconds=HOUR).value)
    assert host.tree(path)[path].startswith("file 600")


def test_a_new_key_joins_the_key_set_and_the_old_one_stays_for_what_it_signed(host: FakeHost) -> None:
    first = issue(host)
    host.files.remove_file(host.paths.state / "tokens/key.pem")
    second = issue(host, held=first.value)
    assert second.value != first.value
    assert len(key_set(host)) == 2
    for token in (first, second):
        checked(host, token.value)


@pytest.mark.parametrize("content", [b"", b"{", b'{"keys": 1}', b"[]", b"\xff", b'{"keys":[{"a":' + b'{"a":' * 9999])
def test_a_damaged_key_set_is_made_anew(host: FakeHost, content: bytes) -> None:
    first = issue(host)
    host.put(host.paths.state / "tokens/jwks.json", content)
    issue(host)
    checked(host, first.value)


@pytest.mark.parametrize("when", [When.BEFORE, When.AFTER])
def test_killed_at_any_call_the_next_start_has_one_key_and_its_set(when: When) -> None:
    calls = 1
    while True:
        host = FakeHost()
        faulty = FaultHost(host, [Fault.kill(calls, when)])
        try:
            issuer_of(faulty).prepare()
        except Killed:
            issuer_of(host).prepare()
            kept = host.content(host.paths.state / "tokens/key.pem")
            checked(host, issue(host).value)
            assert host.content(host.paths.state / "tokens/key.pem") == kept
            assert len(key_set(host)) == 1
        else:
            break
        calls += 1
    assert calls > 4


def test_a_full_disk_is_tried_again(host: FakeHost) -> None:
    host.disk_full = True
    with pytest.raises(OperationError):
        issue(host)
    host.disk_full = False
    checked(host, issue(host).value)


def test_without_the_extra_the_error_names_it(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "volmgr.host.signing")
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(PluginError, match=r"pip install 'volmgr\[tokens\]'"):
        issue(host)


def test_without_an_issuer_the_error_says_how_to_have_one() -> None:
    with pytest.raises(
        SpecError, match=r"pod shop/web .* set token_issuer in the configuration, such as token_issuer: http"
    ):
        NoTokens().issue(POD, audience="", expiration_seconds=HOUR)


def test_a_token_and_its_issuer_show_nothing_of_the_secret(host: FakeHost) -> None:
    issuer = issuer_of(host)
    token = issuer.issue(POD, audience="vault", expiration_seconds=HOUR)
    assert token.value not in repr(token)
    assert "PRIVATE" not in repr(issuer) + repr(vars(issuer)["_known"][1])


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("https://issuer.example", TokenIssuer(issuer=ISSUER)),
        ("cluster.local", TokenIssuer(issuer="cluster.local")),
        (
            {
                "issuer": ISSUER,
                "audiences": ["a"],
                "algorithm": "RS256",
                "min_expiration": "5s",
                "max_expiration": "24h",
            },
            TokenIssuer(
                issuer=ISSUER,
                audiences=("a",),
                algorithm=Algorithm.RS256,
                min_expiration=5.0,
                max_expiration=86400.0,
            ),
        ),
    ],
)
def test_the_option_is_an_issuer_or_a_mapping(option: object, expected: TokenIssuer) -> None:
    assert load(Config, {"token_issuer": option}).token_issuer == expected


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ("", "is no URL"),
        ("urn:thing", "is no URL"),
        (7, "mapping"),
        ({}, "is missing"),
        ({"issuer": ISSUER, "algorithm": "HS256"}, "no choice"),
        ({"issuer": ISSUER, "min_expiration": 0}, "min_expiration is below"),
        ({"issuer": ISSUER, "min_expiration": "2h", "max_expiration": "1h"}, "beyond max_expiration"),
        ({"issuer": ISSUER, "audience": "a"}, "audiences"),
    ],
)
def test_a_wrong_option_says_what_is_wrong(option: object, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem) as refused:
        load(Config, {"token_issuer": option})
    assert refused.value.problems[0].field.startswith("token_issuer")


def test_many_threads_that_need_the_first_token_make_one_key(host: FakeHost) -> None:
    issuer = issuer_of(host)
    start = threading.Barrier(8)

    def run() -> str:
        start.wait()
        return issuer.issue(POD, audience="vault", expiration_seconds=HOUR).value

    with ThreadPoolExecutor(8) as threads:
        values = [each.result() for each in [threads.submit(run) for _ in range(8)]]
    assert len(key_set(host)) == 1
    assert {checked(host, value)["iss"] for value in values} == {ISSUER}
