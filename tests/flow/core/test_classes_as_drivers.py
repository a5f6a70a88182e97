"""Classes that are drivers of `csi` and `flexVolume`: names and directories are those that kubelet gives by field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.flow.core.probes import Disk, Plain, Script, claim_of, storage
from volmgr.model.volume import Facets
from volmgr.plugin import (
    CsiSource,
    FlexVolumeSource,
    Handles,
    SecretReference,
    VolumePlugin,
    VolumeSpec,
    csi_volume_name,
)
from volmgr.report.orphans import orphans_report
from volmgr.report.why import why
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod
from volmgr.testing.volume import Volume

CSI, CSI_DIRECTORY, DRIVER, FLEX = "kubernetes.io/csi", "kubernetes.io~csi", "a.example.com", "vendor/driver"
OTHER = "other.example.com"


class InProcess(Plain):
    """A class that is a driver of both fields, and has one of its own."""

    name = "example.com/in-process"
    handles = (Handles("plainProbe"), Handles("csi", driver=DRIVER), Handles("flexVolume", driver=FLEX))


class Generic(Plain):
    """Serves all other drivers of csi."""

    name = CSI
    handles = (Handles("csi"),)


class Blocks(Disk):
    """A class that is a driver whose volumes are attached, mounted on the node, and devices."""

    name = "example.com/blocks"
    handles = (Handles("csi", driver=DRIVER),)

    def volume_name(self, spec: VolumeSpec[Any]) -> str:  # noqa: ARG002 - as the base's
        return csi_volume_name(DRIVER, "v1")

    def device_target(self, spec: VolumeSpec[Any], host: Any) -> Path:  # noqa: ANN401 - as Disk's
        path: Path = host.paths.block_maps(CSI) / spec.name / "dev"
        return path


@pytest.fixture
def mine() -> Script:
    return Script()


@pytest.fixture
def generic() -> Script:
    return Script()


@pytest.fixture
def node(host: FakeHost, mine: Script, generic: Script) -> TestNode:
    node = TestNode(host, plugins_of(InProcess(mine), Generic(generic)))
    node.sources_ready()
    return node


def csi(driver: str = DRIVER, **more: object) -> dict[str, object]:
    return {"name": "data", "csi": {"driver": driver, **more}}


FLEX_VOLUME = {"name": "data", "flexVolume": {"driver": FLEX, "fsType": "ext4", "secretRef": {"name": "s"}}}


@pytest.mark.parametrize(
    ("volume", "directory", "unique"),
    [
        pytest.param(csi(), CSI_DIRECTORY, f"{CSI}/u1-data", id="csi"),
        pytest.param(FLEX_VOLUME, "vendor~driver", f"{FLEX}/u1-data", id="flexVolume"),
        pytest.param(
            {"name": "data", "plainProbe": {}}, "example.com~in-process", "example.com/in-process/u1-data", id="own"
        ),
    ],
)
def test_a_volume_lies_where_its_field_says_until_it_is_gone(
    node: TestNode, mine: Script, volume: Mapping[str, Any], directory: str, unique: str
) -> None:
    paths, files = node.host.paths, node.host.files
    node.apply(pod("web", volume, uid="u1"))
    place = paths.volumes("u1") / directory / "data"
    assert node.is_mounted("web"), node.warnings()
    assert mine.last("mount").target == place
    assert [each.name for each in node.world.actual] == [unique]
    assert files.names(paths.volumes("u1")) == (directory,)
    node.start()
    node.sources_ready()
    assert (node.is_mounted("web"), mine.count("mount")) == (True, 1)
    node.delete("u1")
    assert (mine.last("unmount").target, mine.last("unmount").volume) == (place, unique)
    assert files.names(paths.pods) == ()
    assert orphans_report(node.world).orphans == ()


def test_a_class_that_names_no_source_reads_what_the_field_has(node: TestNode, mine: Script) -> None:
    node.apply(pod("web", csi(volumeAttributes={"a": "b"}, nodePublishSecretRef={"name": "s"}), uid="u1"))
    attributes = {"a": "b"}
    secret = SecretReference(name="s")
    wanted = CsiSource(driver=DRIVER, volume_attributes=attributes, node_publish_secret_ref=secret)
    assert mine.last("mount").spec.source == wanted
    node.apply(pod("flex", FLEX_VOLUME, uid="u2"))
    assert mine.last("mount").spec.source == FlexVolumeSource(driver=FLEX, fs_type="ext4", secret_ref=secret)


def test_a_driver_without_a_class_is_the_generic_type_s(node: TestNode, mine: Script, generic: Script) -> None:
    node.apply(pod("web", csi(OTHER), uid="u1"))
    assert (mine.calls, generic.calls) == ([], ["mount"])
    assert generic.last("mount").target == node.host.paths.volumes("u1") / CSI_DIRECTORY / "data"


def test_a_volume_that_is_attached_has_the_name_by_which_a_controller_knows_it(host: FakeHost) -> None:
    script = Script(facets=Facets(attach=True, device=True))
    node = TestNode(host, plugins_of(Blocks(script)))
    node.sources_ready()
    node.put_file("storage.yaml", *storage("d1", source={"csi": {"driver": DRIVER, "volumeHandle": "v1"}}))
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    assert node.is_mounted("web"), node.warnings()
    assert [each.name for each in node.world.actual] == [f"{CSI}/{DRIVER}^v1"]
    assert script.last("mount").target == host.paths.volumes("u1") / CSI_DIRECTORY / "pv-d1"


# --- what is found at a start without records ---


def forget(node: TestNode, uid: str = "u1") -> None:
    """Lose the records of a Pod's mounts."""
    top = node.host.paths.state / "mounts" / uid
    for name in node.host.files.names(top):
        node.host.files.remove_file(top / name)


def say(node: TestNode, said: bytes) -> None:
    node.host.files.write(node.host.paths.volumes("u1") / CSI_DIRECTORY / "data/vol_data.json", said, 0o600)


def restart(node: TestNode, *scripts: Script) -> None:
    for script in scripts:
        script.forget()
    node.start()
    node.sources_ready()


@pytest.mark.parametrize(("driver", "found"), [(DRIVER, True), (OTHER, False)])
def test_without_a_record_the_file_beside_it_says_whose_it_is(
    node: TestNode, mine: Script, generic: Script, driver: str, *, found: bool
) -> None:
    node.apply(pod("web", csi(driver), uid="u1"))
    say(node, json.dumps({"driverName": driver, "specVolID": "data"}).encode())
    forget(node)
    restart(node, mine, generic)
    used, other = (mine, generic) if found else (generic, mine)
    assert (used.calls, other.calls) == (["reconstruct", "mount"], [])
    assert [each.name for each in node.world.actual] == [f"{CSI}/u1-data"]
    say(node, b"")
    node.host.files.remove_file(node.host.paths.volumes("u1") / CSI_DIRECTORY / "data/vol_data.json")
    node.delete("u1")
    assert used.last("unmount").target == node.host.paths.volumes("u1") / CSI_DIRECTORY / "data"
    assert node.host.files.names(node.host.paths.pods) == ()


@pytest.mark.parametrize(
    "said",
    [
        *(None, b"", b"{", b"[]", b"7", b'{"driverName": 3}', b"{}", b"\xff\xfe", b'{"driverName": "a.example'),
        pytest.param(b"[" * 100_000, id="deep"),
    ],
    ids=repr,
)
def test_a_file_that_is_missing_or_damaged_leaves_it_to_the_generic_type(
    node: TestNode, mine: Script, generic: Script, said: bytes | None
) -> None:
    node.apply(pod("web", csi(), uid="u1"))
    if said is not None:
        say(node, said)
    forget(node)
    restart(node, mine, generic)
    assert generic.calls == ["reconstruct"]


@pytest.mark.parametrize("kind", ["directory", "link"])
def test_something_else_in_the_file_s_place_is_no_file(
    node: TestNode, mine: Script, generic: Script, host: FakeHost, kind: str
) -> None:
    node.apply(pod("web", csi(), uid="u1"))
    place = host.paths.volumes("u1") / CSI_DIRECTORY / "data/vol_data.json"
    if kind == "directory":
        host.mkdir(place)
    else:
        host.put("/etc/vol_data.json", json.dumps({"driverName": DRIVER}).encode())
        host.link(place, "/etc/vol_data.json")
    forget(node)
    restart(node, mine, generic)
    assert generic.calls == ["reconstruct"]


def test_of_a_device_the_file_lies_with_the_plugin(host: FakeHost, mine: Script, generic: Script) -> None:
    mine.facets = Facets(attach=True, device=True, block=True)
    node = TestNode(host, plugins_of(Blocks(mine), Generic(generic)))
    link = host.paths.block_volume("u1", CSI, "pv-d1")
    host.mkdir(link.parent)
    host.link(link, "/dev/loop9")
    data = host.paths.block_maps(CSI) / "pv-d1/data"
    host.mkdir(data)
    host.put(data / "vol_data.json", json.dumps({"driverName": DRIVER}).encode())
    node.settle()
    assert (mine.calls, generic.calls) == (["reconstruct"], [])
    (found,) = node.world.actual
    assert (found.name, found.plugin, found.mode.value) == (f"{CSI}/{DRIVER}^v1", Blocks.name, "Block")


def test_a_record_says_whose_it_is_whatever_the_file_says(node: TestNode, mine: Script, generic: Script) -> None:
    node.apply(pod("web", csi(), uid="u1"))
    say(node, json.dumps({"driverName": OTHER}).encode())
    restart(node, mine, generic)
    assert (node.is_mounted("web"), mine.calls, generic.calls) == (True, [], [])


def test_a_directory_of_nobody_s_is_unmounted_by_the_class_that_its_file_names(
    node: TestNode, mine: Script, generic: Script, host: FakeHost
) -> None:
    place = host.paths.volumes("u9") / CSI_DIRECTORY / "data"
    host.mkdir(place)
    host.put(place / "vol_data.json", json.dumps({"driverName": DRIVER}).encode())
    restart(node, mine, generic)
    assert (mine.calls, generic.calls) == (["reconstruct", "unmount"], [])
    assert mine.last("unmount").target == place


# --- packages that come and go ---


@pytest.mark.parametrize("volume", [csi(), FLEX_VOLUME], ids=["csi", "flexVolume"])
def test_what_a_class_mounted_waits_for_its_return_and_no_other_touches_it(
    host: FakeHost, mine: Script, generic: Script, volume: Mapping[str, Any]
) -> None:
    node = TestNode(host, plugins_of(InProcess(mine), Generic(generic)))
    node.sources_ready()
    node.apply(pod("web", volume, uid="u1"))
    node.plugins = plugins_of(Generic(generic))
    restart(node)
    node.delete("u1")
    assert (generic.calls, mine.count("unmount")) == ([], 0)
    assert [each.volume for each in orphans_report(node.world).orphans if each.volume]
    node.plugins = plugins_of(InProcess(mine), Generic(generic))
    restart(node)
    assert mine.count("unmount") == 1
    assert host.files.names(host.paths.pods) == ()


def test_who_asks_hears_which_class_is_missing(node: TestNode) -> None:
    node.apply(pod("web", csi(), uid="u1"))
    node.plugins = plugins_of()
    restart(node)
    node.delete("u1")
    (found,) = why(node.world, "web")
    assert "a package that serves example.com/in-process: install the package that brings it" in found.text


def test_a_record_and_a_directory_of_an_earlier_layout_do_no_harm(
    node: TestNode, mine: Script, generic: Script, host: FakeHost
) -> None:
    node.apply(pod("web", csi(), uid="u1"))
    volumes, records = host.paths.volumes("u1"), host.paths.state / "mounts/u1"
    (name,) = host.files.names(records)
    record = json.loads(host.content(records / name))
    record["volume"] = "example.com/in-process/u1-data"
    record["path"] = str(volumes / "example.com~in-process/data")
    host.put(records / name, json.dumps(record).encode())
    host.files.remove_directory(volumes / CSI_DIRECTORY / "data")
    host.mkdir(volumes / "example.com~in-process/data")
    restart(node, mine, generic)
    node.delete("u1")
    assert node.is_unmounted("u1")
    node.apply(pod("web", csi(), uid="u1"))
    assert node.is_mounted("web")


# --- what a class may say ---


def test_a_unique_name_must_begin_as_the_field_says(host: FakeHost, mine: Script) -> None:
    class Stray(InProcess):
        def unique_name(self, spec: VolumeSpec[Any], pod_uid: str) -> str:  # noqa: ARG002 - as the base's
            return f"{self.name}/{pod_uid}"

    node = TestNode(host, plugins_of(Stray(mine)))
    node.sources_ready()
    node.apply(pod("web", csi(), uid="u1"))
    assert f"which does not begin with {CSI}/" in node.warnings()[0]


def test_a_driver_whose_name_cannot_be_a_directory_has_those_of_the_class(host: FakeHost, mine: Script) -> None:
    class Anything(Plain):
        name = "example.com/anything"
        handles = (Handles("flexVolume"),)

    node = TestNode(host, plugins_of(Anything(mine)))
    node.sources_ready()
    for uid, driver in (("u1", ".."), ("u2", "v/d")):
        node.apply(pod(uid, {"name": "data", "flexVolume": {"driver": driver}}, uid=uid))
    targets = [request.target.parent.name for request in mine.requests]
    assert targets == ["example.com~anything", "v~d"]


@pytest.mark.parametrize(("cls", "directory"), [(InProcess, "example.com~in-process"), (Generic, CSI_DIRECTORY)])
def test_the_contract_suite_uses_the_same_directories(
    host: FakeHost, mine: Script, cls: type[VolumePlugin[Any]], directory: str
) -> None:
    one = Volume(cls(mine), CsiSource(driver=OTHER))  # type: ignore[call-arg]
    assert one.target(host).parent.name == directory
