"""What the command line chooses: the mode, the node, and which settings are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from volmgr.config import Config
from volmgr.host.filesystems import FileSystemSettings
from volmgr.options import Options
from volmgr.testing.node import plugins_of
from volmgr_emptydir.plugin import EmptyDir

CLUSTER = (["--in-cluster"], ["--kubeconfig", "/k"])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.json"


@pytest.mark.parametrize("named", CLUSTER)
def test_a_server_however_named_makes_controllers_attach(named: list[str]) -> None:
    options = Options.parse(named)
    assert options.is_kubernetes_mode
    assert options.configuration().controller_attaches


def test_without_a_server_volume_types_attach() -> None:
    options = Options.parse([])
    assert not options.is_kubernetes_mode
    assert options.configuration() == Config()


def test_a_server_is_named_in_one_way_only(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        Options.parse([*CLUSTER[0], *CLUSTER[1]])
    assert "not allowed with" in capsys.readouterr().err


def test_the_node_of_the_command_line_goes_before_that_of_the_file(file: Path) -> None:
    file.write_text(json.dumps({"node_name": "of-the-file"}))
    assert Options.parse(["--config", str(file)]).configuration().node_name == "of-the-file"
    assert Options.parse(["--config", str(file), "--node-name", "n1"]).configuration().node_name == "n1"


def test_a_wrong_setting_of_a_type_is_named_with_its_file(file: Path) -> None:
    file.write_text(json.dumps({"plugins": {EmptyDir.name: {"nonsense": 1}}}))
    options = Options.parse(["--config", str(file)])
    problem = options.misconfigured(plugins_of(EmptyDir()))
    assert problem.startswith(f"{file}: ")
    assert f"plugins.{EmptyDir.name}" in problem


def test_without_a_file_there_is_nothing_to_be_wrong() -> None:
    options = Options.parse([])
    plugins = plugins_of(EmptyDir())
    assert options.misconfigured(plugins) == ""
    assert options.settings(plugins, Config(xfs_nouuid=True)) == (FileSystemSettings(xfs_nouuid=True),)
