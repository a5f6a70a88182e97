"""image on a host in memory: what is looked at, what is shared, what leaves, and what is said when it goes wrong."""

from __future__ import annotations

import base64
import gzip
import json
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from volmgr import manifest
from volmgr.host.interface import CommandResult
from volmgr.model.pod import LocalRef
from volmgr.plugin import (
    ObjectMeta,
    ObjectRef,
    OperationError,
    Pod,
    Quantity,
    Secret,
    SpecError,
    TransientError,
    VolmgrError,
    VolumeSpec,
)
from volmgr.testing import FakeHost, Fault, FaultHost, Killed, Volume, When, pod
from volmgr.testing.node import TestNode, plugins_of
from volmgr.testing.node import pod as node_pod
from volmgr_image.contract import Blobs, archive_of, entry, layout, tagged, tar, write
from volmgr_image.credentials import authfile
from volmgr_image.platform import Platform, this_platform
from volmgr_image.plugin import Image, ImageSource
from volmgr_image.reference import Archive, Layout, Named, parse, pull_policy
from volmgr_image.settings import ImageSettings

TOP = Path("/srv/images")
STATE = Path("/var/lib/volmgr/volmgr/images")
DIGEST = "sha256:" + "0" * 64


def volume(reference: str, policy: str = "", *, of: Pod | None = None) -> Volume:
    return Volume(Image(), ImageSource(reference=reference, pull_policy=policy), pod=of or pod())


def host_with(files: Mapping[str, bytes | None], name: str = "layout") -> FakeHost:
    host = FakeHost()
    host.mkdir(TOP)
    write(host, TOP / name, files)
    return host


def one(name: str = "file", content: bytes = b"1") -> dict[str, bytes | None]:
    return layout([tar({name: content})])


def read(host: FakeHost, wanted: Volume, name: str = "file") -> bytes | None:
    path = wanted.mount(host).path
    assert path is not None
    return host.files.read(path / name)


def refused(host: FakeHost, wanted: Volume, match: str) -> str:
    with pytest.raises(VolmgrError, match=match) as caught:
        wanted.mount(host)
    assert host.table == {}
    assert host.files.names(STATE / "uses") == ()
    return str(caught.value)


# References and policies


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("oci:/srv/layout", Layout(Path("/srv/layout"), "")),
        ("oci:/srv/layout:v1", Layout(Path("/srv/layout"), "v1")),
        ("oci:/srv/layout:name/of:v1", Layout(Path("/srv/layout"), "name/of:v1")),
        ("oci-archive:/srv/a.tar:v1", Archive(Path("/srv/a.tar"), "v1")),
        ("app", Named("app:latest", "")),
        ("team/app:2", Named("team/app:2", "")),
        ("localhost/app", Named("localhost/app:latest", "localhost")),
        ("127.0.0.1:5000/team/app:2", Named("127.0.0.1:5000/team/app:2", "127.0.0.1:5000")),
        ("[::1]:5000/app", Named("[::1]:5000/app:latest", "[::1]:5000")),
        (f"registry.example/app:2@{DIGEST}", Named(f"registry.example/app@{DIGEST}", "registry.example")),
    ],
)
def test_references_are_read_as_other_tools_read_them(reference: str, found: object) -> None:
    assert parse(reference) == found


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "oci:",
        "oci:relative",
        "oci:/srv/../etc",
        "oci-archive:a.tar",
        "-app",
        "App",
        "app:",
        "a b",
        "app@sha256:0",
        "dir:/x",
        "app\n",
    ],
)
def test_what_is_no_reference_is_an_error_of_its_author_that_lists_the_forms(reference: str) -> None:
    with pytest.raises(SpecError, match="write oci:DIR"):
        volume(reference).mount(FakeHost())


@pytest.mark.parametrize(
    ("reference", "policy"),
    [
        ("app", "Always"),
        ("app:latest", "Always"),
        ("app:1", "IfNotPresent"),
        (f"app@{DIGEST}", "IfNotPresent"),
        ("oci:/srv/layout", "Always"),
        ("oci:/srv/layout:latest", "Always"),
        ("oci-archive:/srv/a.tar:1", "IfNotPresent"),
    ],
)
def test_the_default_policy_is_that_of_kubernetes(reference: str, policy: str) -> None:
    assert pull_policy(reference, "") == policy
    assert pull_policy(reference, "Never") == "Never"


def test_a_policy_that_is_none_is_an_error_of_its_author() -> None:
    with pytest.raises(SpecError, match="'Sometimes' is no pullPolicy of images; write Always, IfNotPresent, Never"):
        volume("app", "Sometimes").mount(FakeHost())


# What a Pod gets


def test_the_layers_of_an_image_are_mounted_read_only_and_may_not_be_executed() -> None:
    host = host_with(layout([tar({"a": b"1", "b": b"1"}), tar({".wh.a": b"", "b": b"2"})]))
    wanted = volume(f"oci:{TOP}/layout:v1")
    path = wanted.mount(host).path
    assert path is not None
    assert path == STATE / "mounts" / "uid-web" / "data"
    assert host.files.names(path) == ("b",)
    assert host.files.read(path / "b") == b"2"
    assert {"ro", "nosuid", "nodev", "noexec"} <= set(host.table[path].split(" ")[-1].split(","))
    assert host.files.info(wanted.target(host)) is None


def test_an_image_is_never_of_a_group_nor_has_a_directory_below_its_pod() -> None:
    facets = volume("app").facets
    assert facets.fs_group.value == "nobody"
    assert not facets.directory


def test_two_pods_share_what_was_unpacked_once() -> None:
    host = host_with(one())
    faulty = FaultHost(host)
    first, second = volume(f"oci:{TOP}/layout:v1"), volume(f"oci:{TOP}/layout:v1", of=pod("other"))
    one_path, other_path = first.mount(faulty).path, second.mount(faulty).path
    assert faulty.verbs.count("archives.unpack") == 1
    assert one_path != other_path
    assert len(host.files.names(STATE / "content")) == 1
    first.unmount(host)
    assert list(host.table) == [other_path]


def test_two_references_to_one_image_share_it() -> None:
    host = host_with(one())
    write(host, TOP / "copy", one())
    volume(f"oci:{TOP}/layout:v1").mount(host)
    faulty = FaultHost(host)
    volume(f"oci:{TOP}/copy:v1", of=pod("other")).mount(faulty)
    assert "archives.unpack" not in faulty.verbs


def test_an_archive_is_a_layout_in_one_file() -> None:
    host = host_with({"image.tar": tar(one())}, "")
    assert read(host, volume(f"oci-archive:{TOP}/image.tar:v1")) == b"1"
    assert host.files.names(STATE / "work") != ()
    assert [
        names for life in host.files.names(STATE / "work") for names in host.files.names(STATE / "work" / life)
    ] == []


def test_what_is_mounted_does_not_change_under_its_pod() -> None:
    host = host_with(one())
    wanted = volume(f"oci:{TOP}/layout")
    assert read(host, wanted) == b"1"
    write(host, TOP / "layout", one(content=b"2"))
    assert read(host, wanted) == b"1"
    wanted.unmount(host)
    assert read(host, wanted) == b"2"


def test_if_not_present_takes_what_there_is_always_looks_again() -> None:
    host = host_with(one())
    tagged_one = f"oci:{TOP}/layout:v1"
    assert read(host, volume(tagged_one)) == b"1"
    write(host, TOP / "layout", one(content=b"2"))
    assert read(host, volume(tagged_one, of=pod("present"))) == b"1"
    assert read(host, volume(tagged_one, "Always", of=pod("always"))) == b"2"
    assert read(host, volume(tagged_one, of=pod("after"))) == b"2"
    host.files.remove_tree(TOP / "layout")
    assert read(host, volume(tagged_one, "Never", of=pod("never"))) == b"2"


def test_never_says_that_the_image_is_not_present() -> None:
    host = host_with(one())
    refused(host, volume(f"oci:{TOP}/layout:v1", "Never"), "is not present with pull policy of Never")


def test_a_layout_that_is_not_there_yet_is_waited_for() -> None:
    with pytest.raises(TransientError, match="no OCI layout") as caught:
        volume(f"oci:{TOP}/missing:v1").mount(FakeHost())
    assert caught.value.waits_for == str(TOP / "missing")


# What is chosen


def platform(architecture: str, variant: str = "") -> dict[str, object]:
    found = {"os": "linux", "architecture": architecture}
    return {"platform": {**found, "variant": variant} if variant else found}


def test_the_platform_is_chosen_from_an_index_in_an_index() -> None:
    blobs = Blobs()
    images = [
        blobs.image([tar({"file": name.encode()})], **platform(*name.split("/")))
        for name in ("amd64", "arm64/v8", "arm/v6", "arm/v7")
    ]
    images.append(blobs.image([tar({"file": b"attestation"})], platform={"os": "unknown", "architecture": "unknown"}))
    kind = "application/vnd.oci.image.index.v1+json"
    inner = blobs.add_json({"schemaVersion": 2, "mediaType": kind, "manifests": images}, kind)
    outer = blobs.add_json({"schemaVersion": 2, "mediaType": kind, "manifests": [inner]}, kind, **tagged("v1"))
    files = blobs.layout([outer])
    for written, expected in (
        ("linux/amd64", b"amd64"),
        ("linux/arm64/v8", b"arm64/v8"),
        ("linux/arm64", b"arm64/v8"),
        ("linux/arm/v7", b"arm/v7"),
        ("linux/arm/v6", b"arm/v6"),
    ):
        host = host_with(files).with_settings(ImageSettings(platform=written))
        assert read(host, volume(f"oci:{TOP}/layout:v1")) == expected
    host = host_with(files).with_settings(ImageSettings(platform="linux/s390x"))
    refused(host, volume(f"oci:{TOP}/layout:v1"), "has no image for linux/s390x; there is linux/amd64, linux/arm64/v8")


def test_this_machine_is_a_platform_and_nonsense_is_none() -> None:
    assert this_platform("").os == "linux"
    assert this_platform("linux/arm/v7") == Platform("linux", "arm", "v7")
    with pytest.raises(SpecError, match="write linux/arm64"):
        this_platform("arm64")


def test_a_tag_is_found_among_others_and_a_missing_one_lists_them() -> None:
    blobs = Blobs()
    images = [blobs.image([tar({"file": name.encode()})], **tagged(name)) for name in ("v1", "v2")]
    host = host_with(blobs.layout(images))
    assert read(host, volume(f"oci:{TOP}/layout:v2")) == b"v2"
    refused_host = host_with(blobs.layout(images))
    refused(refused_host, volume(f"oci:{TOP}/layout:v3"), "it has no tag v3; tags are v1, v2")
    refused(
        refused_host, volume(f"oci:{TOP}/layout"), "several images, and the reference names no tag; tags are v1, v2"
    )
    images.append(blobs.image([tar({"file": b"newest"})], **tagged("latest")))
    assert read(host_with(blobs.layout(images)), volume(f"oci:{TOP}/layout")) == b"newest"


def test_the_manifest_of_docker_is_an_image_too_and_an_artifact_needs_no_configuration() -> None:
    blobs = Blobs()
    layer = tar({"file": b"1"})
    empty = blobs.add(b"{}", "application/vnd.oci.empty.v1+json")
    plain = blobs.add(layer, "application/vnd.docker.image.rootfs.diff.tar")
    kind = "application/vnd.docker.distribution.manifest.v2+json"
    manifest = {"schemaVersion": 2, "mediaType": kind, "config": empty, "layers": [plain]}
    host = host_with(blobs.layout([blobs.add_json(manifest, kind)]))
    assert read(host, volume(f"oci:{TOP}/layout")) == b"1"


# What is refused


_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"

Descriptor = dict[str, object]


def deep(blobs: Blobs, descriptor: Descriptor) -> Descriptor:
    for _ in range(5):
        descriptor = blobs.add_json({"manifests": [descriptor]}, _INDEX)
    return descriptor


def changed(blobs: Blobs, descriptor: Descriptor, content: bytes | None) -> Descriptor:
    path = f"blobs/{cast('str', descriptor['digest']).replace(':', '/')}"
    blobs.files[path] = content
    if content is None:
        del blobs.files[path]
    return descriptor


LAYERS: dict[str, Descriptor] = {
    "media type": {"mediaType": "application/x-model"},
    "digest": {"digest": "sha256:../../../../etc/passwd"},
    "size": {"size": "many"},
}
MANIFESTS: dict[str, Callable[[Descriptor], Descriptor]] = {
    "schema": lambda _: {"schemaVersion": 1},
    "layers": lambda layer: {"layers": [layer] * 2},
    "many": lambda layer: {"layers": [layer] * 1025},
}
DESCRIPTORS: dict[str, Callable[[Blobs, Descriptor], Descriptor]] = {
    "manifest": lambda blobs, descriptor: changed(blobs, descriptor, b"{}"),
    "missing": lambda blobs, descriptor: changed(blobs, descriptor, None),
    "kind": lambda _, descriptor: {**descriptor, "mediaType": "text/plain"},
    "deep": deep,
    "json": lambda blobs, _: blobs.add(b"[" * 100_000, _MANIFEST),
}


def broken(change: str) -> dict[str, bytes | None]:
    """Give a layout of one image in which one thing is wrong."""
    blobs = Blobs()
    packed = blobs.add(gzip.compress(tar({"file": b"1"}), mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip")
    layer = packed | LAYERS.get(change, {})
    config = {"rootfs": {"diff_ids": ["sha256:" + "1" * 64]}}
    manifest: Descriptor = {
        "schemaVersion": 2,
        "config": blobs.add_json(config, "application/vnd.oci.image.config.v1+json"),
        "layers": [layer],
    }
    manifest |= MANIFESTS[change](layer) if change in MANIFESTS else {}
    descriptor = blobs.add_json(manifest, _MANIFEST)
    descriptor = DESCRIPTORS[change](blobs, descriptor) if change in DESCRIPTORS else descriptor
    return {**blobs.layout([descriptor]), **({"index.json": b"nonsense"} if change == "index" else {})}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ("none", "layer 1 of 1 of image .*digest of its content"),
        ("media type", "layer 1 is of the media type 'application/x-model'"),
        ("digest", "is no digest"),
        ("schema", "schema version 1"),
        ("layers", "has 2 layers, and its configuration speaks of 1"),
        ("many", "1025 layers; at most"),
        ("size", "layer 1 has no size"),
        ("manifest", "is damaged"),
        ("missing", "blob sha256:.* is missing"),
        ("kind", "media type 'text/plain', and no image"),
        ("deep", "leads to others more than"),
        ("json", "no JSON object"),
        ("index", "no JSON object"),
    ],
)
def test_what_is_wrong_with_an_image_is_said_and_nothing_of_it_stays(change: str, match: str) -> None:
    host = host_with(broken(change))
    assert f"oci:{TOP}/layout" in refused(host, volume(f"oci:{TOP}/layout"), match)
    assert host.files.names(STATE / "content") == ()


def test_a_device_in_an_image_is_refused_naming_image_layer_and_entry() -> None:
    evil = archive_of([entry("dev/sda", type=tarfile.BLKTYPE)])
    host = host_with(layout([tar({"a": b""}), evil]))
    message = refused(host, volume(f"oci:{TOP}/layout:v1"), "block device")
    assert f"layer 2 of 2 of image oci:{TOP}/layout:v1: 'dev/sda' is a block device" in message


def test_the_limits_are_those_of_all_layers_together() -> None:
    layers = [tar({f"file{n}": b"x" * 5000}) for n in range(3)]
    settings = ImageSettings(unpacked_limit=Quantity.of(25_000))
    refused(
        host_with(layout(layers)).with_settings(settings), volume(f"oci:{TOP}/layout:v1"), "layer 3 of 3.*more than"
    )
    settings = ImageSettings(entries_limit=2)
    refused(
        host_with(layout(layers)).with_settings(settings), volume(f"oci:{TOP}/layout:v1"), "layer 3 of 3.*0 entries"
    )
    with pytest.raises(ValueError, match="every image would be refused"):
        ImageSettings(entries_limit=0)


# The cache


def content(host: FakeHost) -> int:
    return len(host.files.names(STATE / "content"))


def images(host: FakeHost, count: int, size: int = 1000) -> list[Volume]:
    """Put layouts of so many images of one size there, each for a Pod of its own."""
    for number in range(count):
        write(host, TOP / f"layout{number}", layout([tar({"file": bytes([number]) * size})]))
    return [volume(f"oci:{TOP}/layout{number}:v1", of=pod(f"pod{number}")) for number in range(count)]


def test_unused_images_leave_least_recently_used_first_above_the_limit() -> None:
    host = FakeHost().with_settings(ImageSettings(image_cache_limit=Quantity.of(2000)))
    first, second, third = images(host, 3)
    for each in (first, second):
        each.mount(host)
    second.unmount(host)
    first.unmount(host)  # used later than the second one
    assert content(host) == 2
    faulty = FaultHost(host)
    third.mount(faulty)
    assert content(host) == 2
    first.mount(faulty)
    assert faulty.verbs.count("archives.unpack") == 1
    second.mount(faulty)
    assert faulty.verbs.count("archives.unpack") == 2


def test_an_image_in_use_never_leaves() -> None:
    host = FakeHost().with_settings(ImageSettings(image_cache_limit=Quantity.of(0)))
    volumes = images(host, 3)
    for number, each in enumerate(volumes):
        assert read(host, each) == bytes([number]) * 1000
    assert content(host) == 3
    for number, each in enumerate(volumes):
        assert read(host, each) == bytes([number]) * 1000
    for left, each in enumerate(volumes, 1):
        each.unmount(host)
        assert content(host) == 3 - left
    assert host.files.names(STATE / "references") == ()
    refused(
        host, replace(volumes[0], source=ImageSource(reference=f"oci:{TOP}/layout0:v1", pull_policy="Never")), "Never"
    )


@pytest.mark.parametrize("when", list(When))
def test_an_eviction_that_is_killed_anywhere_costs_no_image_in_use(when: When) -> None:
    for number in range(1, 200):
        host = FakeHost().with_settings(ImageSettings(image_cache_limit=Quantity.of(1500)))
        used, unused, new = images(host, 3)
        used.mount(host)
        unused.mount(host)
        faulty = FaultHost(host, [Fault.kill(number, when)])
        try:
            unused.unmount(faulty)
        except Killed:
            assert read(host, used) == bytes(1000)
            unused.unmount(host)
            assert read(host, new) == b"\2" * 1000
            assert content(host) == 2
            assert read(host, replace(unused, pod=pod("again"))) == b"\1" * 1000
            continue
        return
    pytest.fail("an unmount made 200 calls")


def test_what_a_killed_unpacking_left_goes_with_the_next_mount_of_another_life() -> None:
    host = host_with(one())
    left = STATE / "work" / "an-earlier-life" / "uid-web.data"
    host.mkdir(left / "image" / "rootfs")
    host.mkdir(left / "auth")
    host.machine.mount(left / "auth", "tmpfs")
    host.put(left / "auth" / "auth.json", b"secret")
    host.mkdir(STATE / "pulls" / "abandoned" / "blobs")
    volume(f"oci:{TOP}/layout:v1").mount(host)
    assert "an-earlier-life" not in host.files.names(STATE / "work")
    assert host.files.names(STATE / "pulls") == ()
    assert len(host.table) == 1


def leaked(host: FakeHost, life: str) -> Path:
    """Leave the mount of a Pod of which no record speaks any more."""
    gone = volume(f"oci:{TOP}/layout:v1", of=pod("gone"))
    path = gone.mount(host).path
    assert path is not None
    marker = STATE / "uses" / "uid-gone" / "data.json"
    fields = json.loads(host.content(marker))
    host.files.remove_tree(STATE / "work")  # nothing was looked through in this life
    host.put(marker, json.dumps({**fields, "life": life or fields["life"]}).encode())
    return path


def test_a_mount_that_nobody_knows_of_any_more_does_not_stay_for_ever() -> None:
    host = host_with(one())
    path = leaked(host, "an-earlier-life")
    volume(f"oci:{TOP}/layout:v1").mount(host)
    assert path not in host.table
    assert host.files.names(STATE / "mounts") == ("uid-web",)
    assert host.files.names(STATE / "uses") == ("uid-web",)


@pytest.mark.parametrize("record", ["pods/uid-gone.json", "mounts/uid-gone", ""])
def test_a_mount_of_this_life_or_of_a_pod_with_a_record_stays(record: str) -> None:
    host = host_with(one())
    path = leaked(host, "an-earlier-life" if record else "")
    if record:
        host.mkdir(host.paths.state / record)
    volume(f"oci:{TOP}/layout:v1").mount(host)
    assert path in host.table


def test_a_writable_mount_that_a_kill_left_is_made_again() -> None:
    host = host_with(one())
    wanted = volume(f"oci:{TOP}/layout:v1")
    path = wanted.mount(host).path
    assert path is not None
    host.mounts.unmount(path)
    host.machine.bind(TOP, path)
    assert read(host, wanted) == b"1"
    assert "noexec" in host.table[path]


# Registries, with a client that a test scripts


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


def with_secrets(*secrets: Secret, names: tuple[str, ...] = ()) -> Volume:
    wanted = names or tuple(item.metadata.name for item in secrets)
    found = pod(image_pull_secrets=tuple(LocalRef(name=name) for name in wanted))
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
