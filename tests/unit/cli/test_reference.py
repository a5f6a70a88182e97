"""The reference names every command, option, path, field of an answer, and metric."""

import dataclasses
import re
from pathlib import Path

import click
import pytest

from tests.unit.report.worlds import empty_world
from volmgr.cli.app import COMMANDS, cli
from volmgr.report import claims, doctor, installed, mounts, orphans, plan, pods, volumes, why
from volmgr.report.metrics import metrics
from volmgr.server import endpoints, messages, routes, stream
from volmgr.server.engine import Action, ApplyResult

DOCS = Path(__file__).parents[3] / "docs" / "reference"
CLI = (DOCS / "cli.md").read_text(encoding="utf-8")
API = (DOCS / "api.md").read_text(encoding="utf-8")
SHAPES = {
    "PodSummary": pods.PodSummary,
    "PodStatus": pods.PodStatus,
    "HoldReport": pods.HoldReport,
    "VolumeReport": volumes.VolumeReport,
    "WhyReport": why.WhyReport,
    "UnboundClaim": claims.UnboundClaim,
    "Refused": claims.Refused,
    "ClaimReport": claims.ClaimReport,
    "PersistentVolumeReport": claims.PersistentVolumeReport,
    "ApplyResult": ApplyResult,
    "HoldMade": endpoints.HoldMade,
    "MountsReport": mounts.MountsReport,
    "ContainerReport": mounts.ContainerReport,
    "MountReport": mounts.MountReport,
    "DeviceReport": mounts.DeviceReport,
    "PlanReport": plan.PlanReport,
    "PlannedOperation": plan.PlannedOperation,
    "WaitingVolume": plan.WaitingVolume,
    "PluginsReport": installed.PluginsReport,
    "TypeReport": installed.TypeReport,
    "FieldReport": installed.FieldReport,
    "WrapperReport": installed.WrapperReport,
    "BrokenReport": installed.BrokenReport,
    "DriverReport": installed.DriverReport,
    "OrphanReport": orphans.OrphanReport,
    "Finding": doctor.Finding,
    "Event": stream.EventReport,
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    section = CLI.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    assert f"`volmgr {name}" in section
    for option in (item for item in command.params if isinstance(item, click.Option)):
        where = CLI if option.name in {"socket", "output"} else section
        assert all(f"{text}" in where for text in option.opts), option.opts


def test_every_path_is_documented() -> None:
    assert [route for route in routes.ROUTES if f"| `{route.method} {route.path}` |" not in API] == []


@pytest.mark.parametrize("name", SHAPES)
def test_every_field_of_an_answer_is_documented(name: str) -> None:
    section = re.split(r"\*\*[A-Z]", API.partition(f"**{name}**: ")[2])[0]
    assert [item.name for item in dataclasses.fields(SHAPES[name]) if f"`{item.name}`" not in section] == []


def test_every_status_metric_action_and_exit_code_is_documented() -> None:
    assert all(str(status) in API for status in messages.REASONS)
    assert all(f"| `{gauge.name}` |" in API for gauge in metrics(empty_world()))
    assert all(f"`{action}`" in API for action in Action)
    assert all(f"| {code} |" in CLI for code in (0, 1, 2, 3, 127, 130))
