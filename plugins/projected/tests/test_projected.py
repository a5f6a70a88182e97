"""projected on a host in memory: what each source gives, which file wins, and every error at once."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import pytest

from volmgr.model.objects import Object, ref_of
from volmgr.plugin import (
    ClusterTrustBundle,
    ConfigMap,
    DownwardFile,
    FieldRef,
    KeyToPath,
    ObjectMeta,
    OperationError,
    Secret,
    SpecError,
    TransientError,
)
from volmgr.testing import FakeHost, Volume, pod
from volmgr.testing.issuer import issuer_of
from volmgr.testing.node import TestNode, plugins_of
from volmgr.testing.node import pod as manifest
from volmgr_projected.plugin import Projected
from volmgr_projected.sources import (
    BundleProjection,
    CertificateProjection,
    DownwardProjection,
    ObjectProjection,
    ProjectedSource,
    Source,
    TokenProjection,
)

SECRET = Secret(metadata=ObjectMeta(name="login"), data={"user": b"admin", "password": b"\x00\xff"})
SETTINGS = ConfigMap(metadata=ObjectMeta(name="settings"), data={"user": "from the map", "mode": "fast"})
NAME = DownwardFile(path="name", field_ref=FieldRef(field_path="metadata.name"))
TOKEN = Source(service_account_token=TokenProjection(path="token", audience="vault"))


def certificate(content: bytes) -> str:
    """Give a certificate, as far as anybody looks at it here: a DER sequence in PEM."""
    der = bytes([0x30, len(content)]) + content
    return f"-----BEGIN CERTIFICATE-----\n{base64.b64encode(der).decode()}\n-----END CERTIFICATE-----\n"


A, B, C = (certificate(name * 40) for name in (b"a", b"b", b"c"))


def certificate_of(**fields: object) -> Source:
    """Give a source that says all that it must, but for what is said otherwise."""
    given = {"signer_name": "example.com/mesh", "key_type": "ED25519", "key_path": "key.pem", **fields}
    return Source(pod_certificate=CertificateProjection(**given))  # type: ignore[arg-type]


def bundle(name: str, *texts: str, signer: str = "", labels: Mapping[str, str] | None = None) -> ClusterTrustBundle:
    meta = ObjectMeta(name=name, labels=labels or {})
    return ClusterTrustBundle(metadata=meta, signer_name=signer, trust_bundle="\n# a comment\n".join(texts))


def volume(*sources: Source, objects: tuple[Object, ...] = (), default_mode: int | None = None) -> Volume:
    source = ProjectedSource(sources=sources, default_mode=default_mode)
    return Volume(Projected(), source, pod(), objects={ref_of(item): item for item in objects})


def secret(*items: KeyToPath, name: str = "login", optional: bool = False) -> Source:
    return Source(secret=ObjectProjection(name=name, items=items, optional=optional))


def config_map(*items: KeyToPath, name: str = "settings", optional: bool = False) -> Source:
    return Source(config_map=ObjectProjection(name=name, items=items, optional=optional))


def files(host: FakeHost, wanted: Volume) -> dict[str, str]:
    """Give the volume's files as a Pod sees them: mode, owner and content by path."""
    data = wanted.target(host) / (host.files.read_link(wanted.target(host) / "..data") or "")
    tree = host.tree(data)
    return {str(path.relative_to(data)): what for path, what in tree.items() if what.startswith("file")}


def test_all_sources_are_in_one_directory_in_memory() -> None:
    host = FakeHost()
    wanted = volume(
        secret(KeyToPath(key="password", path="db/password", mode=0o400)),
        config_map(),
        Source(downward_api=DownwardProjection(items=(NAME,))),
        Source(cluster_trust_bundle=BundleProjection(name="roots", path="ca.pem")),
        objects=(SECRET, SETTINGS, bundle("roots", A)),
        default_mode=0o440,
    )
    wanted.mount(host)
    assert host.table[wanted.target(host)].startswith("tmpfs")
    assert files(host, wanted) == {
        "db/password": r"file 400 0:0 b'\x00\xff'",
        "user": "file 440 0:0 b'from the map'",
        "mode": "file 440 0:0 b'fast'",
        "name": "file 440 0:0 b'web'",
        "ca.pem": f"file 440 0:0 {A.encode()!r}",
    }


@pytest.mark.parametrize("path", ["user", "./user", ".//user"])
def test_a_later_source_replaces_an_equal_path_and_says_so(path: str) -> None:
    host = FakeHost()
    said: list[str] = []
    later = config_map(KeyToPath(key="user", path=path))
    wanted = volume(secret(), later, objects=(SECRET, SETTINGS))
    wanted.mount(host, progress=said.append)
    assert files(host, wanted)["user"] == "file 644 0:0 b'from the map'"
    assert said == ["sources[1] replaces user of an earlier source"]


def test_everything_that_is_wrong_is_named_in_one_message_and_nothing_is_left() -> None:
    host = FakeHost()
    before = host.tree()
    wanted = volume(
        secret(KeyToPath(key="absent", path="x")),
        config_map(KeyToPath(key="gone", path="y")),
        Source(downward_api=DownwardProjection(items=(DownwardFile(path="z"),))),
        TOKEN,
        config_map(),
        objects=(SECRET, SETTINGS),
    )
    with pytest.raises(SpecError) as refused:
        wanted.mount(host)
    for part in (
        "sources[0]: references non-existent secret key: absent",
        "sources[1]: configmap references non-existent config key: gone",
        "sources[2]: z: exactly one of fieldRef and resourceFieldRef",
        "sources[3]: pod default/web asks for a service account token, and nobody issues any here; set token_issuer",
    ):
        assert part in str(refused.value)
    assert host.tree() == before


def test_a_missing_object_is_waited_for_and_an_issuer_that_fails_is_asked_again() -> None:
    with pytest.raises(TransientError, match=r"sources\[0\]: Secret default/login is missing") as waits:
        volume(secret()).mount(FakeHost())
    assert waits.value.waits_for == "Secret default/login"
    host = FakeHost().with_tokens(issuer_of(FakeHost()))
    host.with_tokens(issuer_of(host))
    host.disk_full = True
    with pytest.raises(OperationError, match=r"sources\[1\]"):
        volume(secret(), TOKEN, objects=(SECRET,)).mount(host)


def test_what_is_optional_may_be_absent_object_and_key() -> None:
    host = FakeHost()
    wanted = volume(
        secret(name="absent", optional=True),
        config_map(name="absent", optional=True),
        secret(KeyToPath(key="none", path="none"), KeyToPath(key="user", path="u"), optional=True),
        Source(cluster_trust_bundle=BundleProjection(name="absent", path="ca.pem", optional=True)),
        objects=(SECRET,),
    )
    wanted.mount(host)
    assert files(host, wanted) == {"u": "file 644 0:0 b'admin'", "ca.pem": "file 644 0:0 b''"}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (Source(), r"names 0 of secret, configMap"),
        (Source(secret=ObjectProjection(name="a"), config_map=ObjectProjection(name="b")), r"names 2 of secret"),
        (Source(secret=ObjectProjection()), r"secret\.name is missing"),
        (Source(config_map=ObjectProjection()), r"configMap\.name is missing"),
        (certificate_of(signer_name=""), r"podCertificate\.signerName is empty"),
        (certificate_of(key_type="DSA"), r"podCertificate\.keyType is 'DSA'; write one of ED25519, ECDSAP256"),
        (certificate_of(max_expiration_seconds=3599), r"podCertificate\.maxExpirationSeconds is 3599; write a number"),
        (certificate_of(key_path=""), r"podCertificate names no file"),
        (certificate_of(certificate_chain_path="key.pem"), r"two files of one volume have the path 'key\.pem'"),
        (certificate_of(key_path="../key"), r"invalid path '\.\./key'"),
        (Source(service_account_token=TokenProjection(path="../t")), r"invalid path '\.\./t'"),
        (Source(cluster_trust_bundle=BundleProjection(path="a/../x", name="a")), r"invalid path 'a/\.\./x'"),
        (
            Source(secret=ObjectProjection(name="a", items=(KeyToPath(key="k", path="p", mode=512),))),
            r"items\[k\]\.mode: 512 is no file mode",
        ),
        (Source(downward_api=DownwardProjection(items=(DownwardFile(path="d"),))), r"d: exactly one of fieldRef"),
        (Source(cluster_trust_bundle=BundleProjection(path="x")), r"clusterTrustBundle needs exactly one of name"),
        (
            Source(cluster_trust_bundle=BundleProjection(path="x", name="a", signer_name="b")),
            r"clusterTrustBundle needs exactly one of name",
        ),
    ],
)
def test_a_source_that_says_too_little_or_too_much_is_the_author_s_to_mend(given: Source, problem: str) -> None:
    wanted = volume(secret(), given, objects=(SECRET,))
    with pytest.raises(SpecError, match=rf"sources\[1\]: {problem}"):
        wanted.plugin.check(wanted.spec, wanted.pod)


# --- tokens ---


@pytest.mark.parametrize(
    ("user", "group", "mode", "owner"),
    [
        (None, None, "440", "0:0"),
        (1000, None, "600", "1000:0"),
        (None, 2000, "640", "0:2000"),
        (1000, 2000, "640", "1000:2000"),
    ],
)
def test_a_token_belongs_to_the_common_user_and_at_most_its_group_may_read_it(
    user: int | None, group: int | None, mode: str, owner: str
) -> None:
    host = FakeHost()
    host.with_tokens(issuer_of(host))
    wanted = volume(TOKEN, secret(), objects=(SECRET,), default_mode=0o440)
    for _ in range(2):
        wanted.mount(host, fs_user=user, fs_group=group)
    found = files(host, wanted)
    assert found["token"].startswith(f"file {mode} {owner} ")
    assert found["user"].startswith("file 440 ")


@pytest.mark.parametrize("path", ["../token", "/token", "", "a/../../token", "..data/token"])
def test_a_token_path_that_leaves_the_volume_is_refused(path: str) -> None:
    host = FakeHost()
    host.with_tokens(issuer_of(host))
    with pytest.raises(SpecError, match="invalid path"):
        volume(Source(service_account_token=TokenProjection(path=path))).mount(host)


def test_what_lies_in_the_token_s_place_is_replaced_unless_it_is_the_token() -> None:
    host = FakeHost()
    host.with_tokens(issuer_of(host))
    wanted = volume(TOKEN)
    wanted.mount(host)
    first = files(host, wanted)["token"]
    place = wanted.target(host) / (host.files.read_link(wanted.target(host) / "..data") or "") / "token"
    host.put(place, b"forged")
    wanted.mount(host, remount=True)
    assert files(host, wanted)["token"].startswith("file 644 0:0 b'eyJ")
    assert files(host, wanted)["token"] != first


# --- certificates to trust ---


def test_certificates_are_given_once_in_the_order_of_the_bundles_names() -> None:
    host = FakeHost()
    key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
    crlf = B.replace("\n", "\r\n")
    labelled = {"live": "yes"}
    objects = (
        bundle("example.com:ca:z", A, C, signer="example.com/ca", labels=labelled),
        bundle("example.com:ca:a", key, crlf, A, signer="example.com/ca", labels=labelled),
        bundle("example.com:ca:other", C, signer="example.com/ca", labels={"live": "no"}),
        bundle("example.com:xx:b", C, signer="example.com/xx", labels=labelled),
    )
    source = BundleProjection(path="ca.pem", signer_name="example.com/ca", label_selector={"matchLabels": labelled})
    wanted = volume(Source(cluster_trust_bundle=source), objects=objects)
    wanted.mount(host)
    assert files(host, wanted)["ca.pem"] == f"file 644 0:0 {(B + A + C).encode()!r}"


@pytest.mark.parametrize("content", ["!!!!", "AAAA", "MAM"])
def test_a_damaged_certificate_names_its_bundle(content: str) -> None:
    text = f"{A}-----BEGIN CERTIFICATE-----\n{content}\n-----END CERTIFICATE-----\n"
    source = Source(cluster_trust_bundle=BundleProjection(name="roots", path="ca.pem"))
    with pytest.raises(SpecError, match=r"ClusterTrustBundle roots: certificate 2 is damaged"):
        volume(source, objects=(bundle("roots", text),)).mount(FakeHost())


def test_marks_without_an_end_are_damaged_and_looked_through_once() -> None:
    source = Source(cluster_trust_bundle=BundleProjection(name="roots", path="ca.pem"))
    with pytest.raises(SpecError, match=r"ClusterTrustBundle roots: certificate 2 is damaged"):
        volume(source, objects=(bundle("roots", A + "-----BEGIN CERTIFICATE-----\n" * 30_000),)).mount(FakeHost())


def trusting(selector: Mapping[str, object] | None, **more: object) -> dict[str, object]:
    source = {"signerName": "example.com/ca", "path": "ca.pem", **more}
    if selector is not None:
        source["labelSelector"] = selector
    return {"name": "v", "projected": {"sources": [{"clusterTrustBundle": source}]}}


def bundle_file(name: str, text: str, version: str = "v1beta1", **labels: str) -> dict[str, object]:
    return {
        "apiVersion": f"certificates.k8s.io/{version}",
        "kind": "ClusterTrustBundle",
        "metadata": {"name": f"example.com:ca:{name}", "labels": labels},
        "spec": {"signerName": "example.com/ca", "trustBundle": text},
    }


@pytest.fixture
def node() -> TestNode:
    node = TestNode(FakeHost(), plugins_of(Projected()), sources=("directory", "api"))
    node.sources_ready()
    return node


def trusted(node: TestNode) -> bytes | None:
    return node.host.atomic.read(node.host.paths.volume("u1", Projected.name, "v"), "ca.pem")


def test_a_bundle_that_a_selector_accepts_is_waited_for_and_followed(node: TestNode) -> None:
    node.put_file("web.json", manifest("web", trusting({"matchLabels": {"live": "yes"}}), uid="u1"))
    node.put_file("other.json", bundle_file("other", C, live="no"))
    assert not node.is_mounted("u1")
    node.put_file("a.json", bundle_file("a", A, live="yes"))
    assert node.is_mounted("u1")
    assert trusted(node) == A.encode()
    node.put_file("b.json", bundle_file("b", B, "v1alpha1", live="yes"))
    assert trusted(node) == (A + B).encode()
    node.put_file("a.json", bundle_file("a", C, "v1", live="yes"))
    assert trusted(node) == (C + B).encode()
    node.put_file("a.json", bundle_file("a", C, live="no"))
    assert trusted(node) == B.encode()


def test_bundles_of_a_selector_are_there_after_a_restart_without_their_files(node: TestNode) -> None:
    node.put_file("a.json", bundle_file("a", A))
    node.put_file("web.json", manifest("web", trusting({}), uid="u1"))
    node.advance(1)
    assert trusted(node) == A.encode()
    node.start()
    node.settle()
    assert node.is_mounted("u1")
    assert trusted(node) == A.encode()


def test_a_bundle_that_nobody_selects_touches_no_volume(node: TestNode) -> None:
    node.put_file("a.json", bundle_file("a", A, live="yes"))
    node.put_file("web.json", manifest("web", trusting({"matchLabels": {"live": "yes"}}), uid="u1"))
    before = node.world.events.last_number
    node.put_file("b.json", bundle_file("b", B, live="no"))
    assert node.world.events.last_number == before


def test_without_a_label_selector_no_bundle_of_the_signer_is_meant(node: TestNode) -> None:
    node.put_file("a.json", bundle_file("a", A))
    node.put_file("web.json", manifest("web", trusting(None, optional=True), uid="u1"))
    assert trusted(node) == b""
    node.put_file("must.json", manifest("must", trusting(None), uid="u2"))
    assert not node.is_mounted("u2")


def test_a_volume_waits_for_its_missing_objects_by_name_and_is_mounted_when_they_come(node: TestNode) -> None:
    wanted = {"name": "v", "projected": {"sources": [{"configMap": {"name": "settings"}}]}}
    node.put_file("web.json", manifest("web", wanted, uid="u1"))
    (volume_,) = node.world.desired.of_pod("u1")
    assert [str(ref) for ref in volume_.mounts["u1"].missing] == ["ConfigMap default/settings"]
    node.put_file("map.json", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {}})
    assert node.is_mounted("u1")
