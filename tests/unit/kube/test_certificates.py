"""Certificates of Pods: what a request says and proves, what becomes of its answers, and what lies in memory only."""

from __future__ import annotations

import base64
import datetime as dt
import json
import logging
from collections.abc import Generator, Mapping
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from tests.unit.kube.memory_api import Document, MemoryApi
from tests.unit.kube.signing import condition, issued, stamp
from tests.unit.kube.turned_thread import TurnedThread
from volmgr.errors import OperationError, SpecError, TransientError
from volmgr.host.interface import Certificate, CertificateWish
from volmgr.kube.certificate_state import ABANDONED, FAILED_PAUSE
from volmgr.kube.certificates import KubeCertificates
from volmgr.kube.errors import ApiError
from volmgr.kube.resources import CERTIFICATE_REQUESTS
from volmgr.kube.wire import Seen
from volmgr.model.kube import KubeSettings
from volmgr.model.meta import ObjectMeta
from volmgr.model.pod import Pod, PodSpec

START = float(int(dt.datetime.now(dt.UTC).timestamp()))
HOUR = 3600
POD = Pod(metadata=ObjectMeta(name="web", namespace="shop", uid="uid-web"), spec=PodSpec(service_account_name="seller"))
REQUESTS = "/apis/certificates.k8s.io/v1/namespaces/shop/podcertificaterequests"
WISH = CertificateWish(signer_name="example.com/mesh", key_type="ECDSAP256")


class Site:
    """An API server with a signer that answers when it is told to, and who asks it."""

    def __init__(self) -> None:
        self.now = START
        self.appeared: list[str] = []
        self.api = MemoryApi()
        self.api.put("/api/v1/nodes/n1", {"metadata": {"name": "n1", "uid": "uid-n1"}})
        self.api.put(
            "/api/v1/namespaces/shop/serviceaccounts/seller", {"metadata": {"name": "seller", "uid": "uid-seller"}}
        )
        self.thread = TurnedThread()
        self.certificates = self.restarted()

    def restarted(self) -> KubeCertificates:
        return KubeCertificates(
            self.thread,
            self.api,
            KubeSettings(),
            "n1",
            self.appeared.append,
            wall=lambda: self.now,
            spread=lambda: 0.0,
        )

    def obtain(self, wish: CertificateWish = WISH, pod: Pod = POD, source: int = 0, held: bytes = b"") -> Certificate:
        return self.certificates.obtain(pod, "v", source, wish, held)

    def asked(self) -> Document:
        """Ask, and give the request that is made."""
        with pytest.raises(TransientError):
            self.obtain()
        return self.requests()[-1]

    def requests(self) -> list[Document]:
        return [body for path, body in self.api.asked("POST") if path == REQUESTS]

    def say(self, request: Document, status: Mapping[str, object]) -> None:
        """Let the watch bring a request with a status."""
        raw = json.dumps({**request, "status": status}).encode()
        seen = Seen(namespace="shop", name=request["metadata"]["name"], uid="uid-req", version="7", raw=raw)
        self.certificates.changed(seen)
        self.thread.settle()

    def sign(self, request: Document, life: int = 2 * HOUR, refresh: int = HOUR) -> str:
        status = issued(request, self.now, life, refresh)
        self.say(request, status)
        return str(status["certificateChain"])

    def refuse(self, request: Document, kind: str, reason: str = "Policy", message: str = "not for shops") -> None:
        self.say(request, {"conditions": [condition(kind, reason, message, self.now)]})


@pytest.fixture
def site() -> Generator[Site]:
    made = Site()
    yield made
    made.thread.stop()


def test_a_request_names_pod_account_and_node_and_proves_the_key(site: Site) -> None:
    wish = CertificateWish(
        signer_name="example.com/mesh",
        key_type="ECDSAP384",
        max_expiration_seconds=7200,
        user_annotations={"example.com/team": "shop"},
    )
    with pytest.raises(TransientError, match=r"waits for signer example\.com/mesh"):
        site.obtain(wish)
    (request,) = site.requests()
    spec = dict(request["spec"])
    proof = x509.load_der_x509_csr(base64.b64decode(spec.pop("stubPKCS10Request")))
    assert proof.is_signature_valid
    assert list(proof.subject) == []
    assert list(proof.extensions) == []
    assert spec == {
        "signerName": "example.com/mesh",
        "podName": "web",
        "podUID": "uid-web",
        "serviceAccountName": "seller",
        "serviceAccountUID": "uid-seller",
        "nodeName": "n1",
        "nodeUID": "uid-n1",
        "maxExpirationSeconds": 7200,
        "unverifiedUserAnnotations": {"example.com/team": "shop"},
    }
    assert request["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-web"}
    ]


@pytest.mark.parametrize(
    ("key_type", "kind", "size"),
    [
        ("ED25519", ed25519.Ed25519PublicKey, 0),
        ("ECDSAP256", ec.EllipticCurvePublicKey, 256),
        ("ECDSAP384", ec.EllipticCurvePublicKey, 384),
        ("ECDSAP521", ec.EllipticCurvePublicKey, 521),
        ("RSA3072", rsa.RSAPublicKey, 3072),
        ("RSA4096", rsa.RSAPublicKey, 4096),
    ],
)
def test_each_key_type_is_made_and_proven(site: Site, key_type: str, kind: type, size: int) -> None:
    with pytest.raises(TransientError):
        site.obtain(CertificateWish(signer_name="a.b/c", key_type=key_type))
    proof = x509.load_der_x509_csr(base64.b64decode(site.requests()[0]["spec"]["stubPKCS10Request"]))
    public: Any = proof.public_key()
    assert proof.is_signature_valid
    assert isinstance(public, kind)
    assert getattr(public, "key_size", 0) == size


def test_another_key_type_is_refused_before_anything_is_asked(site: Site) -> None:
    with pytest.raises(SpecError, match="keyType is 'DSA'; write one of ED25519"):
        site.obtain(CertificateWish(signer_name="a.b/c", key_type="DSA"))
    assert site.requests() == []


def test_who_waits_is_woken_when_it_is_signed_and_gets_key_and_plain_certificates(site: Site) -> None:
    with pytest.raises(TransientError) as waits:
        site.obtain()
    chain = site.sign(site.requests()[0])
    assert site.appeared == [waits.value.waits_for]
    given = site.obtain()
    assert given.chain.decode() == chain.removeprefix("# by hand\n")
    key, leaf = load_pem_private_key(given.key, None), x509.load_pem_x509_certificate(given.chain)
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert key.public_key().public_bytes(*form) == leaf.public_key().public_bytes(*form)
    assert given.key.startswith(b"-----BEGIN PRIVATE KEY-----")
    assert (given.due_at, given.expires_at) == (site.now + HOUR, site.now + 2 * HOUR)
    assert len(site.requests()) == 1


def test_a_request_that_waits_is_made_once_however_often_it_is_asked_for(site: Site) -> None:
    request = site.asked()
    for _ in range(5):
        site.asked()
    site.say(request, {"conditions": []})
    site.now += 10 * ABANDONED
    site.asked()
    assert len(site.requests()) == 1


def test_each_source_of_a_volume_and_each_pod_has_a_request_of_its_own(site: Site) -> None:
    for source in (0, 1):
        with pytest.raises(TransientError):
            site.obtain(source=source)
    assert len({request["metadata"]["name"] for request in site.requests()}) == 2


def test_a_due_certificate_stays_until_the_next_is_signed(site: Site) -> None:
    site.sign(site.asked())
    first = site.obtain()
    site.now += HOUR
    old = site.obtain()
    assert old.key == first.key
    assert old.due_at == site.now + 10
    assert len(site.requests()) == 2
    site.sign(site.requests()[1])
    second = site.obtain()
    assert second.key != first.key
    assert second.due_at == site.now + HOUR


def test_a_certificate_that_has_ended_is_never_given(site: Site) -> None:
    site.sign(site.asked())
    site.now += 2 * HOUR - 1
    assert site.obtain().due_at == site.now + 1
    site.now += 1
    with pytest.raises(TransientError):
        site.obtain()


def test_a_denial_is_final_and_names_signer_and_reason(site: Site) -> None:
    request = site.asked()
    site.refuse(request, "Denied", "UnsupportedKeyType", "use ED25519")
    for _ in range(2):
        with pytest.raises(SpecError) as refused:
            site.obtain()
        for part in ("signer example.com/mesh denied", "UnsupportedKeyType: use ED25519", "create the Pod anew"):
            assert part in str(refused.value)
        site.now += 10 * HOUR
    assert len(site.requests()) == 1
    assert site.appeared


def test_a_failure_names_signer_and_reason_and_is_tried_again_after_a_pause(site: Site) -> None:
    site.refuse(site.asked(), "Failed", "Overloaded", "")
    site.now += FAILED_PAUSE - 1
    with pytest.raises(OperationError, match=r"signer example\.com/mesh failed to sign .*: Overloaded$"):
        site.obtain()
    site.now += 1
    site.asked()
    assert len(site.requests()) == 2


def test_a_refresh_that_is_denied_leaves_the_old_certificate_until_it_ends(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.sign(site.asked())
    first = site.obtain()
    site.now += HOUR
    site.obtain()
    site.refuse(site.requests()[1], "Denied")
    old = site.obtain()
    assert (old.key, old.due_at) == (first.key, site.now + FAILED_PAUSE)
    assert "signer example.com/mesh denied" in caplog.text
    site.now += HOUR
    with pytest.raises(SpecError, match="denied"):
        site.obtain()


def test_damaged_certificates_are_the_signer_s_fault(site: Site) -> None:
    request = site.asked()
    site.say(request, {"conditions": [{"type": "Issued"}], "certificateChain": "none", "notAfter": stamp(site.now)})
    with pytest.raises(OperationError, match=r"signer example\.com/mesh gave damaged certificates"):
        site.obtain()


def test_a_request_that_was_deleted_is_made_anew(site: Site) -> None:
    request = site.asked()
    seen = Seen(namespace="shop", name=request["metadata"]["name"], uid="u", version="9", raw=b"{}")
    site.certificates.gone(seen)
    assert site.appeared[-1].endswith(request["metadata"]["name"])
    site.asked()
    assert len(site.requests()) == 2


def test_a_request_that_never_shows_up_is_made_anew_after_ten_minutes(site: Site) -> None:
    site.asked()
    site.now += ABANDONED - 1
    site.asked()
    assert len(site.requests()) == 1
    site.now += 1
    site.asked()
    assert len(site.requests()) == 2


def test_requests_of_others_change_nothing(site: Site) -> None:
    request = site.asked()
    site.sign({**request, "metadata": {"name": "somebody-s", "namespace": "shop"}})
    with pytest.raises(TransientError):
        site.obtain()


def test_a_restart_keeps_what_the_volume_has_while_it_is_good(site: Site) -> None:
    site.sign(site.asked())
    first = site.obtain()
    site.certificates = site.restarted()
    held = first.key + first.chain
    site.now += HOUR
    again = site.obtain(held=held)
    assert (again.key, again.chain) == (first.key, first.chain)
    assert again.due_at == START + 0.8 * 2 * HOUR
    assert len(site.requests()) == 1
    site.now += HOUR
    with pytest.raises(TransientError):
        site.obtain(held=held)


@pytest.mark.parametrize("what", ["nothing", "half", "other"])
def test_what_does_not_belong_together_is_not_kept(site: Site, what: str) -> None:
    site.sign(site.asked())
    first = site.obtain()
    with pytest.raises(TransientError):
        site.obtain(source=1)
    site.sign(site.requests()[1])
    other = site.obtain(source=1)
    held = {"nothing": b"\x00\xff", "half": first.key, "other": other.key + first.chain}[what]
    site.certificates = site.restarted()
    with pytest.raises(TransientError):
        site.obtain(held=held)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ApiError("no answer"), TransientError),
        (ApiError("403 Forbidden: pods of n2; grant it", status=403), OperationError),
    ],
)
def test_a_request_that_the_server_does_not_take_leaves_nothing_that_waits(
    site: Site, error: ApiError, kind: type[Exception]
) -> None:
    site.api.refusal = error
    with pytest.raises(kind, match=r"a certificate of signer example\.com/mesh: "):
        site.obtain()
    site.api.refusal = None
    site.asked()
    assert len(site.requests()) == 1


def test_a_pod_that_is_gone_leaves_nothing(site: Site) -> None:
    site.sign(site.asked())
    site.certificates.forget(POD.uid)
    site.asked()
    assert len(site.requests()) == 2


def test_requests_are_watched_only_while_one_waits(site: Site) -> None:
    lifetime = KubeSettings().object_lifetime

    def lists() -> list[Any]:
        """Give what was asked of all requests; without watches they are listed again and again."""
        site.thread.pass_time(10 * lifetime)
        asked = [query for path, query in site.api.asked("GET") if path == CERTIFICATE_REQUESTS.path()]
        site.api.requests.clear()
        return asked

    assert lists() == []
    request = site.asked()
    watching = lists()
    assert len(watching) >= 10
    assert {query["fieldSelector"] for query in watching} == {"spec.nodeName=n1"}
    site.sign(request)
    assert lists() == []


def test_no_key_is_in_any_text(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        site.sign(site.asked())
        given = site.obtain()
    text = caplog.text + repr(given) + repr(vars(site.certificates)) + json.dumps(site.requests())
    assert given.key.decode().splitlines()[1] not in text
    assert "PRIVATE KEY" not in text
