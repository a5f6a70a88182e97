"""Commands that packages bring: found without importing them, and a broken one breaks itself alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.docs.pages import ROOT, blocks
from volmgr.cli import packages
from volmgr.cli.app import COMMANDS, cli

GREETING = """\
import click

@click.command("greet")
def command():
    click.echo("hello")
"""


class Site:
    """A directory on the path where packages are installed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def install(self, package: str, entries: str, source: str = GREETING) -> None:
        """Let there be a package with one module."""
        module = package.replace("-", "_")
        (self.path / f"{module}.py").write_text(source)
        metadata = self.path / f"{module}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Name: {package}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(entries)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    sys.path.insert(0, str(tmp_path))
    before = set(sys.modules)
    yield Site(tmp_path)
    sys.path.remove(str(tmp_path))
    for name in set(sys.modules) - before:
        if name.startswith(("acme_", "volmgr_places")):
            del sys.modules[name]


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


def test_the_documented_command_works(site: Site) -> None:
    page = [block for block in blocks(ROOT / "docs/reference/hooks.md") if "places" in block.text]
    (entry,), (source,) = ([each.text for each in page if each.language == kind] for kind in ("toml", "python"))
    points: dict[str, str] = tomllib.loads(entry)["project"]["entry-points"][packages.GROUP]
    site.install("volmgr-places", f"[{packages.GROUP}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()), source)

    assert run("places").output == "PLACE\nattic\n"
    assert json.loads(run("places", "-o", "json").output) == {"places": ["attic"]}
    assert "Show the places." in run("places", "--help").output


def test_a_package_brings_a_command_beside_others_of_its_entry_points(site: Site) -> None:
    entries = "[console_scripts]\nacme = acme_greet:main\n\n[volmgr.commands]\n# ours\ngreet=acme_greet:command\n"
    site.install("acme-greet", entries)

    assert run("greet").output == "hello\n"
    assert "  greet " in run("--help").output
    assert "acme" not in packages.brought()


def test_the_list_says_whose_command_it_is_without_importing_it(site: Site) -> None:
    site.install("acme-greet", "[volmgr.commands]\ngreet = acme_greet:command\n", "raise RuntimeError('imported')")

    result = run("--help")

    assert (result.exit_code, "(a command of acme-greet)" in result.output) == (0, True)
    assert "acme_greet" not in sys.modules


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("command = 3", "acme_greet:command is no click command"),
        ("other = 3", "AttributeError: module 'acme_greet' has no attribute 'command'"),
        ("def command(:", "SyntaxError"),
    ],
)
def test_a_broken_package_says_so_and_breaks_no_other_command(site: Site, source: str, problem: str) -> None:
    site.install("acme-greet", "[volmgr.commands]\ngreet = acme_greet:command\n", source)

    result = run("greet", "--loudly", "you")

    assert result.exit_code == 1
    assert "volmgr: command greet of acme-greet cannot be used: " in result.stderr
    assert problem in result.stderr
    assert result.stdout == ""
    assert run("--help").exit_code == 0
    assert run("status", "--help").exit_code == 0


def test_a_broken_package_does_not_break_completion(site: Site) -> None:
    site.install("acme-greet", "[volmgr.commands]\ngreet = acme_greet:command\n", "raise SystemExit(0)")
    ask = {
        "_VOLMGR_COMPLETE": "bash_complete",
        "COMP_WORDS": "volmgr ",
        "COMP_CWORD": "1",
        "PYTHONPATH": str(site.path),
    }

    done = subprocess.run(
        [sys.executable, "-m", "volmgr.cli"], env={**os.environ, **ask}, capture_output=True, text=True, check=True
    )

    assert {"plain,greet", "plain,status"} <= set(done.stdout.split())


def test_no_package_replaces_a_command_of_ours(site: Site) -> None:
    site.install("acme-status", "[volmgr.commands]\nstatus = acme_status:command\n")

    assert COMMANDS["status"] in run("status", "--help").output
    assert run("--help").output.count("  status ") == 1


def test_two_packages_with_one_command_are_both_named(site: Site) -> None:
    for package in ("acme-one", "acme-two"):
        site.install(package, f"[volmgr.commands]\ngreet = {package.replace('-', '_')}:command\n")

    result = run("greet")

    assert result.exit_code == 1
    assert "greet is brought by both acme-one and acme-two; uninstall one of them" in result.stderr


def test_what_is_installed_twice_is_what_comes_first_on_the_path(
    site: Site, tmp_path_factory: pytest.TempPathFactory
) -> None:
    later = Site(tmp_path_factory.mktemp("later"))
    site.install("acme-greet", "[volmgr.commands]\ngreet = acme_greet:command\n")
    later.install("acme-greet", "[volmgr.commands]\ngreet = acme_greet:older\n")
    sys.path.append(str(later.path))
    try:
        assert run("greet").output == "hello\n"
    finally:
        sys.path.remove(str(later.path))


def test_a_command_whose_package_is_not_installed_is_told_which_brings_it() -> None:
    before = list(sys.path)
    sys.path[:] = [folder for folder in before if not list(Path(folder).glob("volmgr_csi-*.dist-info"))]
    try:
        result = run("csi", "ls")
    finally:
        sys.path[:] = before

    assert result.exit_code == 2
    assert "no installed package brings the command 'csi'; install volmgr-csi" in result.stderr


def test_what_is_found_is_what_the_standard_library_finds(site: Site) -> None:
    site.install("acme-greet", "[volmgr.commands]\ngreet = acme_greet:command [loud]\nlater = acme_greet:other\n")

    listed = {(point.name, point.value.partition(" ")[0]) for point in entry_points(group=packages.GROUP)}

    assert {(each.name, each.value) for claims in packages.brought().values() for each in claims} == listed


def test_a_misspelt_command_of_a_package_is_told_which_it_resembles(site: Site) -> None:
    site.install("acme-greet", "[volmgr.commands]\ngreet = acme_greet:command\n")

    result = run("gret")

    assert (result.exit_code, "Did you mean 'greet'?" in result.stderr) == (2, True)
