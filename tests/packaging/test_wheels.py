"""What is published: each wheel of the workspace, built as pip would, without a network."""

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email import message_from_string
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MEMBERS = [ROOT / "core", *sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))]


@pytest.fixture(params=MEMBERS, ids=lambda member: member.name)
def wheel(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[zipfile.ZipFile]:
    build = [sys.executable, "-m", "uv", "build", "--quiet", "--offline", "--no-build-isolation", "--wheel"]
    subprocess.run([*build, "--python", sys.executable, "--out-dir", tmp_path, request.param], check=True)
    (built,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(built) as opened:
        yield opened


def test_a_wheel_is_typed_and_carries_its_licence_and_readme(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    (package,) = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    (info,) = {name.partition("/")[0] for name in names if ".dist-info/" in name}
    metadata = message_from_string(wheel.read(f"{info}/METADATA").decode())

    assert f"{package}/py.typed" in names
    assert b"Apache License" in wheel.read(f"{info}/licenses/LICENSE")
    assert metadata["License-Expression"] == "Apache-2.0"
    assert str(metadata.get_payload()).startswith("# volmgr")


def test_a_wheel_holds_the_package_and_nothing_beside_it(wheel: zipfile.ZipFile) -> None:
    name, version = Path(str(wheel.filename)).name.split("-")[:2]

    assert {entry.partition("/")[0] for entry in wheel.namelist()} == {name, f"{name}-{version}.dist-info"}
