"""image on a host in memory: what is looked at, what a Pod gets, and what is said when it goes wrong."""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from plugins.image.tests.images import STATE, TOP, host_with, one, read, refused, volume

from volmgr.plugin import Quantity, SpecError, TransientError
from volmgr.testing import FakeHost, FaultHost, pod
from volmgr_image.contract import Blobs, archive_of, entry, layout, tagged, tar, write
from volmgr_image.platform import Platform, this_platform
from volmgr_image.reference import Archive, Layout, Named, parse, pull_policy
from volmgr_image.settings import ImageSettings

DIGEST = "sha256:" + "0" * 64

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


@pytest.mark.parametrize(
    ("reference", "policy"),
    [("", ""), ("App!", "Never"), ("oci:srv/a", "Always"), ("oci:/a/../b", ""), ("a", "always")],
)
def test_what_no_node_could_pull_is_refused_unseen(reference: str, policy: str) -> None:
    of = volume(reference, policy)
    with pytest.raises(SpecError):
        of.plugin.check(of.spec, of.pod)


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


def test_what_an_image_says_of_itself_is_shown_short_and_as_it_is_no_command_of_a_terminal() -> None:
    blobs = Blobs()
    tags = ["\x1b[2J", "\ud800", *(f"{number:04}" for number in range(1000)), "x" * 5000]
    images = [blobs.image([tar({"file": b"1"})], **tagged(tag)) for tag in tags]
    message = refused(host_with(blobs.layout(images)), volume(f"oci:{TOP}/layout:v3"), "it has no tag v3")
    assert message.endswith(" more")
    assert message.isprintable()
    assert len(message) < 1000


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
