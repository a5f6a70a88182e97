"""Images from registries, by a client that a test scripts: what it is told, and who sees credentials."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from plugins.image.tests.images import STATE, TOP, one, read, refused, volume

from volmgr import manifest
from volmgr.host.interface import CommandResult
from volmgr.model.pod import LocalRef
from volmgr.plugin import ObjectMeta, ObjectRef, OperationError, Secret, VolumeSpec
from volmgr.testing import FakeHost, Fault, FaultHost, Killed, Volume, When, pod
from volmgr.testing.node import TestNode, plugins_of
from volmgr.testing.node import pod as node_pod
from volmgr_image.contract import write
from volmgr_image.credentials import authfile
from volmgr_image.plugin import Image
from volmgr_image.settings import ImageSettings
from volmgr_image.source import ImageSource


class Client:
    """A skopeo in memory: copies a layout, and remembers how it was called."""

    def __init__(self, host: FakeHost) -> None:
        self.host = host
        self.calls: list[tuple[str, ...]] = []
        self.auths: list[dict[str, object]] = []
        self.manifest = "one"
        self.files = one()
        self.error = ""
        host.programs["skopeo"] = self

    def __call__(self, argv: tuple[str, ...], stdin: bytes) -> CommandResult:
        assert stdin == b""
        self.calls.append(argv)
        auth = Path(next(argv[at + 1] for at, word in enumerate(argv) if word in {"--authfile", "--src-authfile"}))
        info = self.host.files.info(auth)
        assert info is not None
        assert info.mode == 0o600
        above = self.host.files.info(auth.parent)
        assert above is not None
        assert above.mode == 0o700
        assert self.host.mounts.file_system(auth).type == "tmpfs"
        self.auths.append(json.loads(self.host.content(auth)))
        if self.error:
            return CommandResult(1, "", self.error)
        if "copy" in argv:
            target = Path(argv[-1].split(":")[1])
            blobs = Path(argv[argv.index("--dest-shared-blob-dir") + 1])
            for name, data in self.files.items():
                place = blobs / name.removeprefix("blobs/") if name.startswith("blobs/") else target / name
                write(self.host, place.parent, {place.name: data})
        return CommandResult(0, self.manifest, "")

    @property
    def verbs(self) -> list[str]:
        return [word for argv in self.calls for word in argv if word in {"inspect", "copy"}]


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
def client(host: FakeHost) -> Client:
    return Client(host)


def test_an_image_is_pulled_by_the_client_once_and_asked_for_where_the_policy_says_always(
    host: FakeHost, client: Client
) -> None:
    assert read(host, volume("registry.example/app:1")) == b"1"
    assert read(host, volume("registry.example/app:1", of=pod("two"))) == b"1"
    assert client.verbs == ["inspect", "copy"]
    assert read(host, volume("registry.example/app:1", "Always", of=pod("three"))) == b"1"
    assert client.verbs == ["inspect", "copy", "inspect"]
    client.manifest, client.files = "two", one(content=b"2")
    assert read(host, volume("registry.example/app:1", "Always", of=pod("four"))) == b"2"
    assert client.verbs[3:] == ["inspect", "copy"]
    assert client.calls[-1][-2] == "docker://registry.example/app:1"
    assert host.files.names(STATE / "pulls") == ()


def test_pods_that_start_together_pull_one_after_the_other_and_thus_once(host: FakeHost, client: Client) -> None:
    node = TestNode(host, plugins_of(Image()))
    node.sources_ready()
    names = [f"pod{number}" for number in range(4)]
    for name in names:
        source = {"name": "v", "image": {"reference": "registry.example/app:1"}}
        document = json.dumps(node_pod(name, source, uid=name))
        (item,) = manifest.parse(document.encode(), "", node.plugins).items
        node.registry.apply(item)
    node.reconciler.step()
    assert len(node.world.running) == 1
    node.settle()
    assert all(node.is_mounted(name) for name in names)
    assert client.verbs == ["inspect", "copy"]


def test_a_manifest_that_is_too_long_to_be_compared_is_pulled_again(host: FakeHost, client: Client) -> None:
    client.manifest = "x" * (1 << 16)
    for name in ("one", "two"):
        assert read(host, volume("registry.example/app", of=pod(name))) == b"1"
    assert client.verbs == ["inspect", "copy"] * 2


def test_further_options_are_those_of_the_configuration_and_never_make_it_writable(host: FakeHost) -> None:
    write(host, TOP, one())
    path = volume(f"oci:{TOP}:v1").mount(host, options=("rw", "exec", "noatime")).path
    assert path is not None
    assert {"ro", "noexec", "noatime"} <= set(host.table[path].split(" ")[-1].split(","))


def test_tls_is_left_out_only_for_the_registries_of_the_configuration(host: FakeHost, client: Client) -> None:
    host.with_settings(ImageSettings(insecure_registries=("10.0.0.1:5000",)))
    volume("10.0.0.1:5000/app:1").mount(host)
    volume("10.0.0.2:5000/app:1", of=pod("two")).mount(host)
    insecure = ["tls-verify=false" in " ".join(argv) for argv in client.calls]
    assert insecure == [True, True, False, False]


def test_without_a_policy_file_every_image_is_taken_and_with_one_it_rules(host: FakeHost, client: Client) -> None:
    volume("registry.example/app:1").mount(host)
    assert all("--insecure-policy" in argv for argv in client.calls)
    client.calls.clear()
    host.mkdir("/etc/containers")
    host.put("/etc/containers/policy.json", b"{}")
    volume("registry.example/app:2", of=pod("two")).mount(host)
    assert not any("--insecure-policy" in argv for argv in client.calls)


def test_a_missing_client_is_named_with_its_package() -> None:
    refused(FakeHost(), volume("registry.example/app:1"), "skopeo is not installed; install the Debian package skopeo")


def test_what_the_client_said_is_what_is_said(host: FakeHost, client: Client) -> None:
    client.error = 'time="now" level=fatal msg="reading manifest 1 in \\"app\\": manifest unknown"\n'
    message = refused(host, volume("registry.example/app:1"), "manifest unknown")
    assert message == 'cannot pull image registry.example/app:1: reading manifest 1 in "app": manifest unknown'


def secret(name: str, kind: str, data: Mapping[str, bytes]) -> Secret:
    return Secret(metadata=ObjectMeta(name=name, namespace="default"), type=f"kubernetes.io/{kind}", data=data)


def with_secrets(*secrets: Secret, names: tuple[str, ...] = (), of: str = "web") -> Volume:
    wanted = names or tuple(item.metadata.name for item in secrets)
    found = pod(of, image_pull_secrets=tuple(LocalRef(name=name) for name in wanted))
    objects = {ObjectRef("Secret", "default", item.metadata.name): item for item in secrets}
    return replace(volume("registry.example/app:1", of=found), objects=objects)


def test_secrets_of_both_kinds_and_the_node_s_own_file_reach_the_client_and_nobody_else(
    host: FakeHost, client: Client
) -> None:
    host.put(
        "/etc/auth.json",
        json.dumps({"auths": {"one.example": {"auth": "bm9kZQ=="}, "two.example": {"auth": "eA=="}}}).encode(),
    )
    host.with_settings(ImageSettings(authfile="/etc/auth.json"))
    new = secret("new", "dockerconfigjson", {".dockerconfigjson": b'{"auths": {"two.example": {"auth": "c2VjcmV0"}}}'})
    old = secret(
        "old", "dockercfg", {".dockercfg": b'{"https://three.example/v1/": {"username": "u", "password": "p"}}'}
    )
    other = secret("other", "basic-auth", {"password": b"p"})
    wanted = with_secrets(new, old, other)
    faulty = FaultHost(host)
    path = wanted.mount(faulty).path
    expected = {
        "one.example": "bm9kZQ==",
        "two.example": "c2VjcmV0",
        "three.example": base64.b64encode(b"u:p").decode(),
    }
    assert client.auths == [{"auths": {name: {"auth": auth} for name, auth in expected.items()}}] * 2
    assert "c2VjcmV0" not in str(client.calls)
    assert "c2VjcmV0" not in str(host.tree())
    assert list(host.table) == [path]


def test_a_secret_that_is_none_is_named_without_its_content(host: FakeHost, client: Client) -> None:
    empty = secret("broken", "dockerconfigjson", {})
    refused(host, with_secrets(empty), r"imagePullSecret default/broken has no key \.dockerconfigjson")
    bad = secret("broken", "dockerconfigjson", {".dockerconfigjson": b"hunter2"})
    assert "hunter2" not in refused(host, with_secrets(bad), "imagePullSecret default/broken is no JSON")
    assert client.calls == []


def test_a_secret_that_does_not_exist_is_tried_without_and_named_when_that_fails(
    host: FakeHost, client: Client
) -> None:
    wanted = with_secrets(names=("missing",))
    references = wanted.plugin.references(cast("VolumeSpec[ImageSource]", wanted.spec), wanted.pod)
    assert [(each.ref.name, each.optional) for each in references] == [("missing", True)]
    client.error = "unauthorized"
    refused(host, wanted, "unauthorized; imagePullSecrets of the Pod that do not exist: missing")


def test_a_missing_authfile_of_the_configuration_is_named(host: FakeHost, client: Client) -> None:
    host.with_settings(ImageSettings(authfile="/etc/auth.json"))
    refused(host, volume("registry.example/app:1"), "the authfile /etc/auth.json of the configuration does not exist")
    assert client.calls == []


class LockedClient(Client):
    """A skopeo whose registry opens to one password."""

    def __call__(self, argv: tuple[str, ...], stdin: bytes) -> CommandResult:
        answer = super().__call__(argv, stdin)
        return answer if "c2VjcmV0" in str(self.auths[-1]) else CommandResult(1, "", "unauthorized")


def key(name: str, auth: str = "c2VjcmV0") -> Secret:
    body = json.dumps({"auths": {"registry.example": {"auth": auth}}}).encode()
    return secret(name, "dockerconfigjson", {".dockerconfigjson": body})


def test_an_image_that_one_pod_pulled_with_its_secret_is_not_given_to_another_without_asking(host: FakeHost) -> None:
    client = LockedClient(host)
    first = with_secrets(key("right"))
    first.mount(host)
    asked = len(client.calls)
    first.mount(host)
    assert len(client.calls) == asked
    for stranger in (volume("registry.example/app:1", of=pod("other")), with_secrets(key("wrong", "bm8="), of="other")):
        with pytest.raises(OperationError, match="unauthorized"):
            stranger.mount(host)
        source = ImageSource(reference="registry.example/app:1", pull_policy="Never")
        never = replace(stranger, source=source)
        with pytest.raises(OperationError, match="but for Pods with the imagePullSecrets of those that pulled it"):
            never.mount(host)
    client.calls.clear()
    with_secrets(key("another"), of="third").mount(host)
    assert client.verbs == ["inspect"]
    for name, of in (("another", "fourth"), ("right", "fifth")):
        with_secrets(key(name), of=of).mount(host)
    assert client.verbs == ["inspect"]


def test_an_image_that_was_pulled_without_a_secret_is_for_all(host: FakeHost, client: Client) -> None:
    with_secrets(key("right")).mount(host)
    volume("registry.example/app:1", of=pod("other")).mount(host)
    assert client.verbs == ["inspect", "copy", "inspect"]
    volume("registry.example/app:1", of=pod("third")).mount(host)
    assert client.verbs == ["inspect", "copy", "inspect"]


def test_credentials_that_no_text_can_hold_are_no_reason_to_fail() -> None:
    given = {"auths": {"a.example": {"username": "\ud800", "password": "p"}}}
    assert json.loads(authfile(json.dumps(given).encode(), "file", [])) == {"auths": {"a.example": {"auth": "Pzpw"}}}


def test_tokens_are_handed_on_and_what_is_no_credential_is_left_out() -> None:
    given = {"auths": {"https://a.example/v2/": {"identitytoken": "t", "email": "e"}, "b.example": {}, "c.example": 5}}
    made = json.loads(authfile(json.dumps(given).encode(), "file", []))
    assert made == {"auths": {"a.example": {"identitytoken": "t"}}}


@pytest.mark.parametrize("when", list(When))
def test_a_pull_that_is_killed_anywhere_leaves_no_credentials_after_the_next(when: When) -> None:
    token = secret("s", "dockerconfigjson", {".dockerconfigjson": b'{"auths": {"a.example": {"auth": "c2VjcmV0"}}}'})
    for number in range(1, 300):
        host = FakeHost()
        Client(host)
        wanted = with_secrets(token)
        faulty = FaultHost(host, [Fault.kill(number, when)])
        try:
            wanted.mount(faulty)
        except Killed:
            assert read(host, wanted) == b"1", f"killed {when} {faulty.trace[-1]}"
            assert "c2VjcmV0" not in str(host.tree())
            assert len(host.table) == 1
            continue
        return
    pytest.fail("a mount made 300 calls")


def test_a_failed_pull_takes_the_credentials_away(host: FakeHost, client: Client) -> None:
    token = secret("s", "dockerconfigjson", {".dockerconfigjson": b'{"auths": {"a.example": {"auth": "c2VjcmV0"}}}'})
    client.error = "unauthorized"
    with pytest.raises(OperationError):
        with_secrets(token).mount(host)
    assert host.table == {}
    assert "c2VjcmV0" not in str(host.tree())
