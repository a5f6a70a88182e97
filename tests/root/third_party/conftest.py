"""A volume type of somebody else: begun by the template outside this tree, filled in, built and installed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.live_node import LiveNode
from tests.root.third_party.author import Author
from tests.side_venv import SideVenv, run_uv, wheel

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Three versions: the first, one that can do more, and one that cannot be imported."""
    author = Author(tmp_path_factory.mktemp("author") / "overlay")
    author.take_over("plugin.py")
    author.take_over("contract.py")
    built = {"0.1.0": author.build("0.1.0")}

    author.take_over("second.py")
    author.edit('"overlay_volume.plugin:Overlay"', '"overlay_volume.second:SecondOverlay"')
    author.edit('version = "0.1.0"', 'version = "0.2.0"')
    built["0.2.0"] = author.build("0.2.0")

    author.take_over("second.py", "\nraise ImportError('half a release')\n")
    author.edit('version = "0.2.0"', 'version = "0.3.0"')
    built["0.3.0"] = author.build("0.3.0")
    return built


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> SideVenv:
    """An environment of wheels of this tree, core and emptyDir, and nothing else of it."""
    top = tmp_path_factory.mktemp("environment")
    core = wheel(ROOT / "core", top / "core")
    pins = Path(sys.prefix) / "requirements.txt"  # scripts/bootstrap.py leaves it there
    venv = SideVenv.bare(top / "venv")
    wanted = (f"volmgr[testing] @ {core.as_uri()}", wheel(ROOT / "plugins/emptydir", top / "emptydir"))
    run_uv("pip", "install", "--python", venv.python, "--constraint", pins, *wanted)
    return venv


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A file system that can hold what is written to an overlay, which one that is an overlay itself cannot."""
    place = tmp_path / "memory"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.fixture
def node(environment: SideVenv, memory: Path) -> Iterator[LiveNode]:
    """A daemon of that environment, in which the type is not installed yet."""
    environment.uninstall("overlay")
    with LiveNode(environment.python, memory) as node:
        yield node


@pytest.fixture
def node_with_it(environment: SideVenv, wheels: Mapping[str, Path], memory: Path) -> Iterator[LiveNode]:
    """A daemon that begins with the first version of the type."""
    environment.install(wheels["0.1.0"])
    with LiveNode(environment.python, memory) as node:
        yield node
