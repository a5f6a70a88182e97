"""image from a real registry on loopback, by a real skopeo, on this machine's kernel."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.loopback_registry import LoopbackRegistry, docker_config, running
from volmgr.model.pod import LocalRef
from volmgr.plugin import Host, ObjectMeta, ObjectRef, OperationError, Quantity, Secret, UncertainError
from volmgr.testing import FaultHost, Volume, pod
from volmgr.testing.real_host import RealHosts
from volmgr_image.cache import Cache, Use
from volmgr_image.contract import Blobs, Files, layout, tagged, tar
from volmgr_image.plugin import Image
from volmgr_image.settings import ImageSettings
from volmgr_image.source import ImageSource

pytestmark = pytest.mark.root


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[RealHosts]:
    with RealHosts(tmp_path / "hosts") as hosts:
        yield hosts


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[LoopbackRegistry]:
    with running(tmp_path / "registry") as registry:
        yield registry


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[LoopbackRegistry]:
    with running(tmp_path / "registry", locked=True) as registry:
        yield registry


def host_for(hosts: RealHosts, registry: LoopbackRegistry) -> Host:
    return hosts.fresh()[0].with_settings(ImageSettings(insecure_registries=(registry.host,)))


def volume(registry: LoopbackRegistry, name: str, policy: str = "", of: str = "web") -> Volume:
    return Volume(Image(), ImageSource(reference=f"{registry.host}/{name}", pull_policy=policy), pod=pod(of))


def one(content: bytes) -> Files:
    return layout([tar({"file": content, "old": b"1"}), tar({".wh.old": b""})])


def read(wanted: Volume, host: Host, name: str = "file") -> bytes:
    path = wanted.mount(host).path
    assert path is not None
    assert not (path / "old").exists()
    return (path / name).read_bytes()


def test_an_image_is_pulled_by_tag_and_by_digest(hosts: RealHosts, registry: LoopbackRegistry) -> None:
    host = host_for(hosts, registry)
    digest = registry.push(one(b"one"), "team/app:1")
    assert read(volume(registry, "team/app:1"), host) == b"one"
    registry.push(one(b"two"), "team/app:1")
    assert read(volume(registry, f"team/app@{digest}", of="by-digest"), host) == b"one"
    assert read(volume(registry, f"team/app:1@{digest}", of="by-both"), host) == b"one"


def test_a_tag_that_changed_is_pulled_again_only_by_always(hosts: RealHosts, registry: LoopbackRegistry) -> None:
    host = FaultHost(host_for(hosts, registry))
    registry.push(one(b"one"), "app:latest")
    assert read(volume(registry, "app"), host) == b"one"
    before = host.verbs.count("archives.unpack")
    assert read(volume(registry, "app", of="same"), host) == b"one"
    assert host.verbs.count("archives.unpack") == before
    registry.push(one(b"two"), "app:latest")
    assert read(volume(registry, "app", "IfNotPresent", of="present"), host) == b"one"
    assert read(volume(registry, "app", "Never", of="never"), host) == b"one"
    assert read(volume(registry, "app", of="always"), host) == b"two"
    assert read(volume(registry, "app", "Never", of="after"), host) == b"two"


def test_the_platform_is_chosen_from_an_index(hosts: RealHosts, registry: LoopbackRegistry) -> None:
    blobs = Blobs()
    images = [
        blobs.image([tar({"file": name.encode()})], platform={"os": "linux", "architecture": name})
        for name in ("amd64", "arm64", "s390x")
    ]
    kind = "application/vnd.oci.image.index.v1+json"
    index = blobs.add_json({"schemaVersion": 2, "mediaType": kind, "manifests": images}, kind, **tagged("v1"))
    digest = registry.push(blobs.layout([index]), "app:1")
    settings = ImageSettings(insecure_registries=(registry.host,), platform="linux/s390x")
    host = hosts.fresh()[0].with_settings(settings)
    assert read(volume(registry, "app:1"), host) == b"s390x"
    assert read(volume(registry, f"app@{digest}", of="by-digest"), host) == b"s390x"
    other = hosts.fresh()[0].with_settings(replace(settings, platform="linux/riscv64"))
    with pytest.raises(OperationError, match=r"no image found in .* for architecture riscv64"):
        volume(registry, "app:1").mount(other)


def test_what_the_registry_does_not_have_is_named_and_leaves_nothing(
    hosts: RealHosts, registry: LoopbackRegistry
) -> None:
    host = host_for(hosts, registry)
    with pytest.raises(OperationError, match=r"cannot pull image .*/app:nothing: .*unknown"):
        volume(registry, "app:nothing").mount(host)
    with pytest.raises(OperationError, match="not present with pull policy of Never"):
        volume(registry, "app:nothing", "Never").mount(host)
    assert host.mounts.below(host.paths.root) == ()


def test_a_registry_without_tls_is_refused_unless_the_configuration_names_it(
    hosts: RealHosts, registry: LoopbackRegistry
) -> None:
    registry.push(one(b"one"), "app:1")
    with pytest.raises(OperationError, match="HTTPS"):
        volume(registry, "app:1").mount(hosts.fresh()[0])


def with_secret(registry: LoopbackRegistry, name: str, secret: Secret) -> Volume:
    found = pod(image_pull_secrets=(LocalRef(name=secret.metadata.name),))
    objects = {ObjectRef("Secret", "default", secret.metadata.name): secret}
    return replace(volume(registry, name), pod=found, objects=objects)


def secrets(host: str) -> list[Secret]:
    config = docker_config(host)
    old = json.dumps(config["auths"]).replace(host, f"http://{host}/v2/").encode()
    meta = ObjectMeta(name="pull", namespace="default")
    return [
        Secret(
            metadata=meta,
            type="kubernetes.io/dockerconfigjson",
            data={".dockerconfigjson": json.dumps(config).encode()},
        ),
        Secret(metadata=meta, type="kubernetes.io/dockercfg", data={".dockercfg": old}),
    ]


def test_a_locked_registry_opens_to_the_secret_of_a_pod(hosts: RealHosts, locked: LoopbackRegistry) -> None:
    locked.push(one(b"one"), "app:1")
    with pytest.raises(OperationError, match="authentication required"):
        volume(locked, "app:1").mount(host_for(hosts, locked))
    for secret in secrets(locked.host):
        host = host_for(hosts, locked)
        assert read(with_secret(locked, "app:1", secret), host) == b"one"
        mounts = [str(entry.target) for entry in host.mounts.below(host.paths.root)]
        assert mounts == [str(host.paths.state / "images" / "mounts" / "uid-web" / "data")]


def test_a_locked_registry_does_not_open_to_what_root_has_at_home(
    hosts: RealHosts, locked: LoopbackRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked.push(one(b"one"), "app:1")
    (tmp_path / "home" / ".docker").mkdir(parents=True)
    (tmp_path / "home" / ".docker" / "config.json").write_text(json.dumps(docker_config(locked.host)))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(OperationError, match="authentication required"):
        volume(locked, "app:1").mount(host_for(hosts, locked))


def test_an_artifact_is_pulled_though_it_is_no_image_of_a_container(
    hosts: RealHosts, registry: LoopbackRegistry
) -> None:
    blobs = Blobs()
    kind = "application/vnd.oci.image"
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{kind}.manifest.v1+json",
        "config": blobs.add(b"{}", "application/vnd.example.model.config.v1+json"),
        "layers": [blobs.add(gzip.compress(tar({"file": b"model"})), f"{kind}.layer.v1.tar+gzip")],
    }
    registry.push(blobs.layout([blobs.add_json(manifest, f"{kind}.manifest.v1+json", **tagged("v1"))]), "model:1")
    assert read(volume(registry, "model:1"), host_for(hosts, registry)) == b"model"


def test_a_locked_registry_opens_to_the_file_of_the_node(
    hosts: RealHosts, locked: LoopbackRegistry, tmp_path: Path
) -> None:
    locked.push(one(b"one"), "app:1")
    auth = tmp_path / "auth.json"
    auth.write_text(json.dumps(docker_config(locked.host)))
    settings = ImageSettings(insecure_registries=(locked.host,), authfile=str(auth))
    assert read(volume(locked, "app:1"), hosts.fresh()[0].with_settings(settings)) == b"one"


def test_a_layer_of_zstd_is_unpacked_and_a_bomb_of_it_stopped(hosts: RealHosts, registry: LoopbackRegistry) -> None:
    host = host_for(hosts, registry)
    registry.push(zstd_image(host, registry.top, {"file": b"z" * 100_000}), "app:1")
    assert read(volume(registry, "app:1"), host) == b"z" * 100_000
    small = hosts.fresh()[0].with_settings(replace(host.settings_of(ImageSettings), unpacked_limit=Quantity.of(50_000)))
    with pytest.raises(OperationError, match=r"layer 1 of 1 of image .* unpacks to more than 50000 bytes"):
        volume(registry, "app:1").mount(small)


def zstd_image(host: Host, top: Path, files: Files) -> Files:
    """Give a layout whose layer is compressed by zstd."""
    plain, packed = top / "layer", top / "layer.zst"
    plain.write_bytes(tar(files))
    host.commands.run(["zstd", "-q", "-f", str(plain), "-o", str(packed)])
    blobs = Blobs()
    kind = "application/vnd.oci.image"
    diff_id = f"sha256:{hashlib.sha256(plain.read_bytes()).hexdigest()}"
    config = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [diff_id]}}
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{kind}.manifest.v1+json",
        "config": blobs.add_json(config, f"{kind}.config.v1+json"),
        "layers": [blobs.add(packed.read_bytes(), f"{kind}.layer.v1.tar+zstd")],
    }
    return blobs.layout([blobs.add_json(manifest, f"{kind}.manifest.v1+json", **tagged("v1"))])


def test_a_pull_that_is_cancelled_is_cut_off_and_the_next_one_succeeds(
    hosts: RealHosts, registry: LoopbackRegistry
) -> None:
    host = host_for(hosts, registry)
    registry.push(one(b"one"), "app:1")
    asked: list[bool] = []

    def cancelled() -> bool:
        asked.append(True)
        return len(asked) > 3

    wanted = volume(registry, "app:1")
    with pytest.raises((UncertainError, OperationError), match="cancelled"):
        wanted.mount(host, cancelled=cancelled)
    assert read(wanted, host) == b"one"
    assert (host.paths.state / "images" / "pulls").exists()
    assert list((host.paths.state / "images" / "pulls").iterdir()) == []


def test_what_was_downloaded_before_a_deadline_is_not_downloaded_again(
    hosts: RealHosts, registry: LoopbackRegistry
) -> None:
    host = host_for(hosts, registry)
    digest = registry.push(one(b"one"), "app:1")
    wanted = volume(registry, "app:1")
    blobs = Image().volume_name(wanted.spec)
    assert blobs == f"{registry.host}/app:1"
    # A first try that got one blob: it is taken from there, though the registry has lost it since.
    layers = sorted((registry.top / "push" / "blobs" / "sha256").iterdir(), key=lambda path: path.stat().st_size)
    place = Cache(host).pulls(blobs) / "blobs" / "sha256"
    place.mkdir(parents=True)
    layer = next(path for path in layers if path.read_bytes().startswith(b"\x1f\x8b"))
    (place / layer.name).write_bytes(layer.read_bytes())
    for data in (registry.top / "data").rglob(f"{layer.name}/data"):
        data.unlink()
    Cache(host).claim(Use("uid-web", "data"), blobs)
    assert read(wanted, host) == b"one"
    assert digest
