"""What pages show is right: manifests parse, commands have the options they are shown with, links lead somewhere."""

from __future__ import annotations

import ast
import shlex
import subprocess
from pathlib import Path

import click
import pytest
import yaml

from tests.docs.pages import PAGES, ROOT, Block, blocks, links, name
from volmgr import manifest
from volmgr.cli.app import cli
from volmgr.discovery import load
from volmgr.options import Options

ALL = [block for page in PAGES for block in blocks(page)]
COMMANDS = [
    (block, line[2:])
    for block in ALL
    if block.language == "console"
    for line in block.text.splitlines()
    if line.startswith("$ ")
]


def of(language: str) -> list[Block]:
    return [block for block in ALL if block.language == language]


def test_blocks_say_their_language() -> None:
    known = {"console", "yaml", "json", "python", "toml", "", "ini"}

    assert [str(block) for block in ALL if block.language not in known] == []


@pytest.mark.parametrize("block", of("yaml"), ids=str)
def test_yaml_is_accepted(block: Block, tmp_path: Path) -> None:
    if block.title == "config":
        (tmp_path / "config.yaml").write_text(block.text)
        options = Options.parse(["--config", str(tmp_path / "config.yaml")])
        assert options.misconfigured(load()) == ""
        return
    if block.title == "cluster":  # for an API server: tests/kube gives it to one
        assert isinstance(yaml.safe_load(block.text), dict)
        return
    parsed = manifest.parse(block.text.encode(), "page.yaml", load())
    if block.title == "note":  # its type is what the tutorial is about
        assert [error.field for error in parsed.errors] == ["spec.volumes[0].note"]
        return
    assert parsed.errors == ()
    assert parsed.items


@pytest.mark.parametrize("block", of("python"), ids=str)
def test_python_compiles(block: Block) -> None:
    ast.parse(block.text)


@pytest.mark.parametrize(("block", "line"), COMMANDS, ids=str)
def test_a_command_is_one_that_the_shell_and_volmgr_understand(block: Block, line: str) -> None:
    subprocess.run(["bash", "-n", "-c", line], check=True)
    words = shlex.split(line.removesuffix("&"))
    if words[0] == "volmgr":
        understand(words[1:])
    elif words[0] == "volmgrd":
        Options.parse(words[1:])
    elif words[0] == "make":
        assert f"\n{words[1]}:" in (ROOT / "Makefile").read_text(), str(block)


def understand(words: list[str]) -> None:
    """Parse a command line of `volmgr` without running it."""
    group: click.Command | None = cli
    context = cli.make_context("volmgr", list(words))
    while isinstance(group, click.Group):
        rest = [*getattr(context, "_protected_args", ()), *context.args]
        if not rest:
            assert group.invoke_without_command
            return
        title, group, arguments = group.resolve_command(context, rest)
        assert group is not None
        context = group.make_context(title, arguments, parent=context)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in links(page):
        if target.startswith("https://"):
            continue
        assert (page.parent / target.partition("#")[0]).exists(), target
