"""`contrib/oci_bundle.py`: a fragment becomes a bundle's configuration, and what is missing is said in one line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from volmgr.cli.oci import fragment
from volmgr.report.mounts import ContainerReport

SCRIPT = Path(__file__).resolve().parents[3] / "contrib" / "oci_bundle.py"
FRAGMENT = json.dumps(
    fragment(ContainerReport(name="web", kind="main", mounts=(), devices=(), supplemental_groups=(7,)))
)


def written(bundle: Path, data: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(SCRIPT), "--user", "1000:5", str(bundle), "--", "cat", "/x"]
    return subprocess.run(argv, input=data, capture_output=True, text=True, check=False)


def test_a_fragment_becomes_the_configuration_of_a_bundle(tmp_path: Path) -> None:
    (tmp_path / "rootfs").mkdir()
    assert written(tmp_path, FRAGMENT).returncode == 0
    process = json.loads((tmp_path / "config.json").read_text())["process"]
    assert (process["args"], process["user"]) == (["cat", "/x"], {"uid": 1000, "gid": 5, "additionalGids": [7]})


def test_a_bundle_without_a_root_file_system_is_named(tmp_path: Path) -> None:
    result = written(tmp_path / "web", FRAGMENT)
    assert result.returncode == 2
    assert f"error: {tmp_path}/web/rootfs is no directory; put" in result.stderr


@pytest.mark.parametrize("data", ["", "[]", "null", f'{{"web": {FRAGMENT}}}'])
def test_what_is_no_fragment_of_one_container_is_refused(tmp_path: Path, data: str) -> None:
    (tmp_path / "rootfs").mkdir()
    result = written(tmp_path, data)
    assert result.returncode == 2
    assert "standard input is not what `volmgr mounts POD --container NAME" in result.stderr
    assert not (tmp_path / "config.json").exists()
