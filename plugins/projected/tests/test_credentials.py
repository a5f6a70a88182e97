"""podCertificate on a host in memory: which files there are, whose they are, and what the volume gives back."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from volmgr.model.pod import Pod
from volmgr.plugin import Certificate, CertificateWish, SpecError, TransientError
from volmgr.testing import FakeHost, Volume, pod
from volmgr.testing.node import TestNode, plugins_of
from volmgr.testing.node import pod as manifest
from volmgr_projected.plugin import Projected
from volmgr_projected.sources import CertificateProjection, ProjectedSource, Source

KEY, CHAIN = b"-- a key --\n", b"-- certificates --\n"


@dataclass
class Signer:
    """Signs at once, or not yet; remembers what it was asked."""

    waits: bool = False
    due_at: float = 1e10
    asked: list[tuple[str, str, int, CertificateWish, bytes]] = field(default_factory=list)

    def obtain(self, pod: Pod, volume: str, source: int, wish: CertificateWish, held: bytes = b"") -> Certificate:
        self.asked.append((pod.uid, volume, source, wish, held))
        if self.waits:
            raise TransientError("the certificate waits", waits_for="PodCertificateRequest default/req-1")
        return Certificate(key=KEY, chain=CHAIN, due_at=self.due_at, expires_at=self.due_at + 100)


def volume(*sources: Source) -> Volume:
    return Volume(Projected(), ProjectedSource(sources=sources, default_mode=0o444), pod())


BUNDLE = CertificateProjection(
    signer_name="example.com/mesh",
    key_type="ECDSAP256",
    max_expiration_seconds=7200,
    credential_bundle_path="bundle.pem",
    user_annotations={"example.com/team": "shop"},
)
SPLIT = CertificateProjection(
    signer_name="example.com/mesh", key_type="RSA3072", key_path="tls.key", certificate_chain_path="tls.crt"
)


def tree(host: FakeHost, wanted: Volume) -> dict[str, str]:
    data = wanted.target(host) / (host.files.read_link(wanted.target(host) / "..data") or "")
    found = host.tree(data)
    return {str(path.relative_to(data)): what for path, what in found.items() if what.startswith("file")}


def test_key_and_certificates_are_in_one_file_or_in_two() -> None:
    host = FakeHost().with_certificates(Signer())
    wanted = volume(Source(pod_certificate=BUNDLE), Source(pod_certificate=SPLIT))
    wanted.mount(host)
    assert tree(host, wanted) == {
        "bundle.pem": f"file 444 0:0 {KEY + CHAIN!r}",
        "tls.key": f"file 444 0:0 {KEY!r}",
        "tls.crt": f"file 444 0:0 {CHAIN!r}",
    }


def test_each_source_says_what_it_wants_and_what_the_volume_has() -> None:
    signer = Signer()
    host = FakeHost().with_certificates(signer)
    wanted = volume(Source(pod_certificate=BUNDLE), Source(pod_certificate=SPLIT))
    wanted.mount(host)
    wanted.mount(host)
    (_, _, first, wish, held), (_, _, second, _, _) = signer.asked[:2]
    assert (first, second, held) == (0, 1, b"")
    assert wish == CertificateWish(
        signer_name="example.com/mesh",
        key_type="ECDSAP256",
        max_expiration_seconds=7200,
        user_annotations={"example.com/team": "shop"},
    )
    assert [asked[4] for asked in signer.asked[2:]] == [KEY + CHAIN, KEY + CHAIN]


def test_the_files_of_a_pod_with_one_user_are_that_user_s_alone() -> None:
    host = FakeHost().with_certificates(Signer())
    wanted = volume(Source(pod_certificate=SPLIT))
    wanted.mount(host, fs_user=1000)
    assert {what.split(" b'")[0] for what in tree(host, wanted).values()} == {"file 600 1000:0"}


def test_a_certificate_that_is_not_signed_yet_is_waited_for_by_name() -> None:
    host = FakeHost().with_certificates(Signer(waits=True))
    with pytest.raises(TransientError, match=r"sources\[0\]: the certificate waits") as waits:
        volume(Source(pod_certificate=BUNDLE)).mount(host)
    assert waits.value.waits_for == "PodCertificateRequest default/req-1"


def test_a_certificate_is_replaced_when_it_is_due() -> None:
    host = FakeHost()
    node = TestNode(host, plugins_of(Projected()))
    signer = Signer(due_at=node.now + 100)
    host.with_certificates(signer)
    source = {"podCertificate": {"signerName": "x.y/z", "keyType": "ED25519", "credentialBundlePath": "b.pem"}}
    node.apply(manifest("web", {"name": "v", "projected": {"sources": [source]}}, uid="uid-web"))
    assert node.is_mounted("uid-web")
    signer.due_at += 1000
    node.advance(99)
    assert len(signer.asked) == 1
    node.advance(1)
    assert len(signer.asked) == 2
    node.advance(900)
    assert len(signer.asked) == 2


def test_without_an_api_server_it_is_said_what_to_do_instead() -> None:
    with pytest.raises(SpecError, match=r"podCertificate needs an API server .* kube mode only; here, put the"):
        volume(Source(pod_certificate=BUNDLE)).mount(FakeHost())
