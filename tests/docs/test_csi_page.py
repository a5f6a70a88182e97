"""docs/csi.md and what belongs to it: paths of drivers and registrars agree, units are units, settings are all said."""

from __future__ import annotations

import configparser
import dataclasses
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import pytest
import yaml

from tests.docs.pages import ROOT, blocks, first_cells, name, text_of
from tests.docs.test_reference import sources
from tests.docs.test_unit_file import NAMESPACES
from volmgr.model.schema import load
from volmgr_csi.cli.driver import REMEDIES
from volmgr_csi.settings import NAME, CsiSettings

PAGE = ROOT / "docs/csi.md"
REGISTRAR = ROOT / "contrib/csi-registrar@.service"
KUBELET = "/var/lib/kubelet"
DRIVER = "hostpath.csi.k8s.io"
CODES = {code for code in REMEDIES if code}
"""What a driver answers is in no message of ours."""


def options(words: list[str]) -> dict[str, str]:
    """Give the long options of a command line."""
    return dict(word.removeprefix("--").split("=", 1) for word in words if word.startswith("--") and "=" in word)


def containers() -> dict[str, list[str]]:
    """Give the podman commands, by the container's name."""
    lines = [line[2:] for block in blocks(PAGE) if block.language == "console" for line in block.text.splitlines()]
    commands = [shlex.split(line) for line in lines if line.startswith("podman run")]
    return {words[words.index("--name") + 1]: words for words in commands}


def volumes(words: list[str]) -> dict[str, tuple[str, str]]:
    """Give where the host has what a container has, and how it is mounted, by the container's path."""
    found = [words[index + 1].split(":") for index, word in enumerate(words) if word == "-v"]
    return {inside: (host, "".join(more)) for host, inside, *more in found}


def on_the_host(path: str, words: list[str]) -> str:
    """Translate a path of a container."""
    inside = PurePosixPath(path)
    top = next(each for each in (inside, *inside.parents) if str(each) in volumes(words))
    return str(PurePosixPath(volumes(words)[str(top)][0]) / inside.relative_to(top))


def units() -> Mapping[str, str]:
    """Give the text of each unit: those of the page and that of contrib, for one driver."""
    shown = {block.title: block.text for block in blocks(PAGE) if block.language == "ini"}
    return {**shown, f"csi-registrar@{DRIVER}.service": REGISTRAR.read_text().replace("%i", DRIVER)}


def service(text: str) -> configparser.SectionProxy:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return parser["Service"]


def test_containers_have_one_socket_of_the_driver_and_register_where_volmgrd_looks() -> None:
    driver, registrar = (containers()[f"hostpath-{each}"] for each in ("driver", "registrar"))

    socket = on_the_host(options(driver)["endpoint"].removeprefix("unix://"), driver)

    assert socket == f"{KUBELET}/plugins/{DRIVER}/csi.sock"
    assert on_the_host(options(registrar)["csi-address"], registrar) == socket
    assert options(registrar)["kubelet-registration-path"] == socket
    assert on_the_host("/registration", registrar) == f"{KUBELET}/plugins_registry"
    assert options(driver)["drivername"] == DRIVER


def test_the_driver_s_container_gives_back_what_it_mounts_below_the_root_directory() -> None:
    driver = containers()["hostpath-driver"]

    assert volumes(driver)[KUBELET] == (KUBELET, "rshared")
    assert "--privileged" in driver


def test_services_have_one_socket_of_the_driver_and_register_where_volmgrd_looks() -> None:
    driver, registrar = units().values()

    socket = options(service(driver)["ExecStart"].split())["endpoint"].removeprefix("unix://")

    assert socket == f"{KUBELET}/plugins/{DRIVER}/csi.sock"
    said = options(service(registrar)["ExecStart"].split())
    assert said["csi-address"] == said["kubelet-registration-path"] == socket
    assert said["plugin-registration-path"] == f"{KUBELET}/plugins_registry"
    assert service(driver)["ExecStartPre"].split()[-1] == str(PurePosixPath(socket).parent)


def test_what_the_driver_s_service_mounts_is_the_host_s() -> None:
    found = service(units()["hostpath-driver.service"])

    assert found["KillMode"] == "process"
    assert [key for key in found if key.startswith(NAMESPACES)] == []


@pytest.mark.parametrize("name", units())
def test_systemd_has_nothing_to_say_against_a_unit(name: str, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:  # then the other tests must do
        return
    unit = tmp_path / name
    unit.write_text(re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", units()[name]))

    done = subprocess.run([analyze, "verify", unit], capture_output=True, text=True, check=False)

    assert [line for line in done.stderr.splitlines() if name in line] == []


def test_each_message_of_the_troubleshooting_table_is_one_that_volmgr_gives() -> None:
    table = PAGE.read_text().partition("## Troubleshooting")[2]
    messages = [cell.strip("`") for cell in first_cells(table) if cell.startswith("`")]
    assert len(messages) > 15

    source = " ".join(path.read_text() for path in sources())
    unknown = [text for text in messages if text.partition(": ")[2] not in CODES and text not in source]
    assert unknown == []


@pytest.mark.parametrize("page", [PAGE, ROOT / "plugins/csi/README.md"], ids=name)
def test_what_a_configuration_says_of_drivers_is_read(page: Path) -> None:
    shown = [yaml.safe_load(block.text)["plugins"][NAME] for block in blocks(page) if block.title == "config"]

    read = [load(CsiSettings, each) for each in shown]

    assert shown
    assert all(settings.drivers or settings.paths for settings in read)


def test_each_setting_is_documented_and_no_other() -> None:
    table = text_of("plugins/csi/README.md").partition("## Configuration")[2]
    listed = {cell.strip("`"): cell for cell in first_cells(table) if cell.startswith("`")}

    fields = {field.metadata.get("name", field.name): field for field in dataclasses.fields(CsiSettings)}
    assert set(listed) == set(fields)
    rows = dict(re.findall(r"^\| `(\w+)` \| (\S+) \|", table, re.MULTILINE))
    assert {name: float(rows[name]) for name, field in fields.items() if isinstance(field.default, float)} == {
        name: field.default for name, field in fields.items() if isinstance(field.default, float)
    }
