"""contrib/volmgrd.service: systemd understands it, and nothing in it hides mounts from the host."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import volmgr
from tests.docs.pages import ROOT
from volmgr.options import Options

UNIT = ROOT / "contrib/volmgrd.service"
NAMESPACES = (
    "Private", "Protect", "ReadOnlyPaths", "ReadWritePaths", "InaccessiblePaths", "ExecPaths", "NoExecPaths",
    "BindPaths", "BindReadOnlyPaths", "TemporaryFileSystem", "RootDirectory", "RootImage", "MountFlags", "MountImages",
    "DynamicUser", "StateDirectory", "ExtensionImages",
)  # fmt: skip
"""Beginnings of directives with which systemd gives a service a mount namespace of its own."""


def service() -> configparser.SectionProxy:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    return parser["Service"]


def test_it_leaves_what_volumes_need_alone() -> None:
    found = service()

    assert found["Type"] == "notify"
    assert found["KillMode"] == "process"
    assert found["Restart"] == "always"
    assert [key for key in found if key.startswith(NAMESPACES)] == []


def test_its_command_line_is_one_that_the_daemon_understands() -> None:
    program, *options = service()["ExecStart"].split()

    arguments = Options.parse(options)

    assert Path(program).name == "volmgrd"
    assert arguments.socket == Path(volmgr.SOCKET)
    assert arguments.root_dir == Path(volmgr.ROOT)
    assert arguments.socket.parent == Path("/run") / service()["RuntimeDirectory"]


def test_systemd_has_nothing_to_say_against_it(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:  # then the other tests must do
        return
    unit = tmp_path / "volmgrd.service"
    unit.write_text(re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", UNIT.read_text()))

    done = subprocess.run([analyze, "verify", unit], capture_output=True, text=True, check=False)

    assert [line for line in done.stderr.splitlines() if "volmgrd.service" in line] == []
