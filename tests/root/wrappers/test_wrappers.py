"""Two packages that wrap every type, installed beside a real daemon: one writes down, one refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live_node import LiveNode
from tests.side_venv import SideVenv

ROOT = Path(__file__).parents[3]


def settings(top: Path) -> dict[str, Any]:
    rules = [
        {"types": ["hostPath"], "allow_below": [str(top / "allowed")], "reason": "no system directories"},
        {"types": ["emptyDir"], "namespaces": ["guests"]},
    ]
    return {"volmgr-audit": {"file": str(top / "audit.jsonl")}, "volmgr-policy": {"rules": rules}}


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> SideVenv:
    venv = SideVenv.make(tmp_path_factory.mktemp("wrappers") / "venv")
    for package in ("audit", "policy"):
        venv.install(ROOT / "contrib" / package)
    return venv


@pytest.fixture
def node(venv: SideVenv, tmp_path: Path) -> Iterator[LiveNode]:
    (tmp_path / "allowed").mkdir()
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"plugins": settings(tmp_path)}))
    with LiveNode(venv.python, tmp_path, "--config", str(config)) as node:
        yield node


def test_both_are_listed_as_packages_that_wrap(node: LiveNode) -> None:
    listed = node.tell("plugins")
    assert "volmgr-audit" in listed
    assert "volmgr-policy" in listed


def test_each_operation_is_one_line(node: LiveNode) -> None:
    node.put("web", {"emptyDir": {}})
    node.tell("wait", "web")
    node.remove("web")
    node.tell("wait", "web", "--for", "unmounted")

    lines = lines_of(node.top / "audit.jsonl")
    assert [(line["operation"], line["outcome"]) for line in lines] == [("mount", "done"), ("unmount", "done")]
    assert lines[0]["pod"] == "default/web"
    assert lines[0]["target"].endswith("/volumes/kubernetes.io~empty-dir/v")
    assert lines[0]["seconds"] > 0


def test_what_a_rule_denies_is_refused_with_its_reason_and_written_down(node: LiveNode) -> None:
    node.put("nosy", {"hostPath": {"path": "/etc"}})
    why = node.await_why("nosy", "volmgr-policy, rule 1, denies hostPath /etc, which is not below")
    assert node.run("wait", "nosy", "--timeout", "0s").returncode != 0
    assert "no system directories" in why
    assert {(line["operation"], line["outcome"]) for line in lines_of(node.top / "audit.jsonl")} == {
        ("mount", "SpecError")
    }


def test_what_is_below_an_allowed_directory_is_let_through_unless_a_link_leads_out(node: LiveNode) -> None:
    allowed = node.top / "allowed"
    (allowed / "inside").mkdir()
    (allowed / "link").symlink_to("/etc")
    node.put("good", {"hostPath": {"path": str(allowed / "inside")}})
    node.put("sly", {"hostPath": {"path": str(allowed / "link")}})

    node.tell("wait", "good")
    node.await_why("sly", "denies hostPath /etc")
    assert node.run("wait", "sly", "--timeout", "0s").returncode != 0


def test_a_rule_for_a_namespace_is_for_no_other(node: LiveNode) -> None:
    node.put("host", {"emptyDir": {}})
    node.tell("wait", "host")
    node.put("guest", {"emptyDir": {}}, namespace="guests")

    node.await_why("guests/guest", "rule 2, denies emptyDir volumes")
    assert node.run("wait", "guests/guest", "--timeout", "0s").returncode != 0


def test_without_its_line_nothing_is_done_where_lines_are_required(venv: SideVenv, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    audit = {"file": str(tmp_path / "nowhere/audit.jsonl"), "required": True}
    config.write_text(json.dumps({"plugins": {"volmgr-audit": audit}}))
    with LiveNode(venv.python, tmp_path, "--config", str(config)) as node:
        node.put("web", {"emptyDir": {}})
        node.await_why("web", "cannot append to the audit file")
        assert node.run("wait", "web", "--timeout", "0s").returncode != 0
        (tmp_path / "nowhere").mkdir()
        node.tell("wait", "web")
        assert [line["outcome"] for line in lines_of(tmp_path / "nowhere/audit.jsonl")] == ["begun", "done"]
