"""A third party's volume type, from the template to a wheel: it is used, and comes and goes under a daemon."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.door import Door
from tests.live_node import PATIENCE, LiveNode
from tests.side_venv import SideVenv

TYPE = "example.com/overlay"
MEMORY: dict[str, object] = {"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
DRIVER = "overlay.example.com"
FORMS = ("own-field", "flex", "csi")


class Layers:
    """Two directories of the node that volumes lie over."""

    def __init__(self, top: Path) -> None:
        self.over, self.base = top / "over", top / "base"
        for layer in (self.over, self.base):
            layer.mkdir()
            (layer / "both").write_text(layer.name)
            (layer / f"only-{layer.name}").write_text("1")

    def volume(self, form: str = "own-field") -> dict[str, object]:
        """Give a volume over both; a driver's as the schema of an API server has it: texts."""
        lower = {"lower": f"{self.over}:{self.base}"}
        match form:
            case "flex":
                return {"flexVolume": {"driver": TYPE, "readOnly": False, "options": lower}}
            case "csi":
                return {"csi": {"driver": DRIVER, "readOnly": False, "volumeAttributes": lower}}
            case _:
                return {"overlay": {"lower": [str(self.over), str(self.base)]}}

    def content(self) -> dict[str, str]:
        """Give what the directories hold themselves."""
        files = [path for layer in (self.over, self.base) for path in layer.iterdir()]
        return {f"{path.parent.name}/{path.name}": path.read_text() for path in files}


def place_of(node: LiveNode, form: str) -> Path:
    """Give where a Pod has it, which follows the field."""
    return node.volume(form, "kubernetes.io/csi" if form == "csi" else TYPE)


@pytest.fixture
def layers(tmp_path: Path) -> Layers:
    return Layers(tmp_path)


def installed(node: LiveNode) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Give what `volmgr plugins` says: each type with the version and the abilities that the daemon uses."""
    told: dict[str, Any] = json.loads(node.tell("plugins", "-o", "json"))
    assert told["broken"] == []
    return {each["name"]: (each["version"], tuple(each["abilities"])) for each in told["types"]}


@contextmanager
def waiting(node: LiveNode, *words: str) -> Generator[None]:
    """Let a command wait, which has asked the daemon before what is done within, and must end well after it."""
    with Door(node.top / "door", node.socket) as door:
        argv = node.argv("wait", *words, "--timeout", "60s", by=door.path)
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as client:
            door.until_asked(PATIENCE)
            yield
            _, problem = client.communicate(timeout=PATIENCE)
            assert client.returncode == 0, problem


def source_of(node: LiveNode, pod: str) -> str:
    """Give what the mount table shows as the source of a Pod's volume."""
    rows = [line.split(" ") for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    (row,) = (row for row in rows if row[4] == str(node.volume(pod, TYPE)))
    assert row[row.index("-") + 1] == "overlay"
    return row[row.index("-") + 2]


@pytest.mark.timeout(300)  # each host call of each form is killed once, on the kernel
@pytest.mark.parametrize("host", ["fake", "real"])
def test_it_keeps_the_contract(
    environment: SideVenv, wheels: Mapping[str, Path], memory: Path, tmp_path: Path, host: str
) -> None:
    environment.install(wheels["0.1.0"])
    suite = ("--pyargs", "volmgr.testing.contract", "--volmgr-plugin", "overlay", "--volmgr-host", host)
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "PYTHON"))}
    argv: list[str | Path] = [environment.python, "-m", "pytest", "-q", *suite, "--basetemp", memory / "suite"]
    done = subprocess.run(argv, cwd=tmp_path, env=plain, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


def test_pods_have_it_by_its_own_field_and_by_the_drivers_that_an_api_server_lets_through(
    node_with_it: LiveNode, layers: Layers
) -> None:
    node, before = node_with_it, layers.content()
    for form in FORMS:
        node.put(form, layers.volume(form))
    for form in FORMS:
        node.tell("wait", form)
        place = place_of(node, form)
        assert {path.name: path.read_text() for path in place.iterdir()} == {
            "both": "over",
            "only-base": "1",
            "only-over": "1",
        }
        (place / "both").write_text(form)
    ids = node.mount_ids()
    assert set(ids) == {str(place_of(node, form)) for form in FORMS}

    node.kill()
    node.start()
    for form in FORMS:
        node.tell("wait", form)
    assert node.mount_ids() == ids
    assert {form: (place_of(node, form) / "both").read_text() for form in FORMS} == {form: form for form in FORMS}

    for form in FORMS:
        node.remove(form)
        node.tell("wait", form, "--for", "unmounted")
    assert node.mount_ids() == {}
    assert list((node.root / "pods").iterdir()) == []
    assert layers.content() == before


def test_a_volume_that_no_mount_could_take_is_refused_naming_the_field(node_with_it: LiveNode) -> None:
    node = node_with_it
    node.put("odd", {"overlay": {"lower": ["/srv,upperdir=/etc"]}})
    node.await_why("odd", "lower: '/srv,upperdir=/etc' must be an absolute path without")
    assert node.run("wait", "odd", "--timeout", "0s").returncode == 1
    assert node.mount_ids() == {}


def test_it_is_installed_and_upgraded_under_mounted_volumes_and_no_mount_is_touched(
    environment: SideVenv, wheels: Mapping[str, Path], node: LiveNode, layers: Layers
) -> None:
    without = installed(node)
    assert set(without) == {"kubernetes.io/empty-dir"}
    node.put("old", MEMORY)
    node.tell("wait", "old")
    node.put("first", layers.volume())
    with waiting(node, "first"):
        kept = node.mount_ids()

        environment.install(wheels["0.1.0"])
        assert installed(node) == without  # what the daemon uses, not what lies there
        node.tell("plugins", "reload")
    assert installed(node) == {**without, TYPE: ("0.1.0", ())}
    assert kept.items() <= node.mount_ids().items()

    layer = layers.over.parent / "late"
    node.put("late", {"overlay": {"lower": [str(layer)]}})
    with waiting(node, "late"):
        kept = node.mount_ids()

        environment.install(wheels["0.2.0"])
        assert installed(node)[TYPE] == ("0.1.0", ())
        node.tell("plugins", "reload")
        assert installed(node) == {**without, TYPE: ("0.2.0", ("measure",))}
        assert node.mount_ids() == kept

        layer.mkdir()
    assert (source_of(node, "first"), source_of(node, "late")) == ("overlay", "overlay-2")
    assert kept.items() <= node.mount_ids().items()


def test_a_version_that_cannot_be_imported_is_refused_and_the_old_one_goes_on(
    environment: SideVenv, wheels: Mapping[str, Path], node_with_it: LiveNode, layers: Layers
) -> None:
    node, before = node_with_it, installed(node_with_it)
    node.put("first", layers.volume())
    node.tell("wait", "first")
    kept = node.mount_ids()

    environment.install(wheels["0.3.0"])
    refused = node.run("plugins", "reload")

    assert refused.returncode == 1
    assert "half a release" in refused.stderr
    assert "the old one goes on" in refused.stderr
    assert installed(node) == before
    node.put("second", layers.volume())
    node.tell("wait", "second")
    assert kept.items() <= node.mount_ids().items()


def test_when_it_is_removed_its_volumes_stay_and_are_named_until_it_returns(
    environment: SideVenv, wheels: Mapping[str, Path], node_with_it: LiveNode, layers: Layers
) -> None:
    node, before = node_with_it, installed(node_with_it)
    for name in ("first", "second"):
        node.put(name, layers.volume())
        node.tell("wait", name)
    kept = node.mount_ids()

    environment.uninstall("overlay")
    assert installed(node) == before
    node.tell("plugins", "reload")
    assert set(installed(node)) == {"kubernetes.io/empty-dir"}
    assert node.mount_ids() == kept
    assert TYPE in node.tell("why", "first")

    node.remove("first")
    with waiting(node, "first", "--for", "unmounted"):
        assert TYPE in node.tell("why", "first")
        orphans = node.tell("orphans")
        assert "uid-first" in orphans
        assert TYPE in orphans
        assert node.mount_ids() == kept

        environment.install(wheels["0.2.0"])
        node.tell("plugins", "reload")
    assert installed(node)[TYPE] == ("0.2.0", ("measure",))
    del kept[str(node.volume("first", TYPE))]
    assert node.mount_ids() == kept
    assert not (node.root / "pods/uid-first").exists()
