"""Everything that people can name is documented, and nothing is documented that does not exist."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import click

import volmgr
from tests.docs.pages import PAGES, ROOT, first_cells, name, spans, text_of
from volmgr import hookspecs, options
from volmgr.cli.app import COMMANDS, cli
from volmgr.cli.packages import OURS
from volmgr.config import Config
from volmgr.errors import VolmgrError


def test_each_hook_is_documented_and_no_other() -> None:
    declared = {
        hook
        for group in (hookspecs.Registration, hookspecs.Operations)
        for hook, _ in inspect.getmembers(group, inspect.isfunction)
        if hook.startswith("volmgr_")
    }
    page = text_of("docs/reference/hooks.md")

    listed = {cell.strip("`").partition("(")[0] for cell in first_cells(page) if cell.startswith("`volmgr_")}

    assert listed == declared


def test_each_hook_is_documented_with_its_arguments() -> None:
    page = text_of("docs/reference/hooks.md")
    for group in (hookspecs.Registration, hookspecs.Operations):
        for hook, function in inspect.getmembers(group, inspect.isfunction):
            arguments = [argument for argument in inspect.signature(function).parameters if argument != "self"]
            assert f"`{hook}({', '.join(arguments)})`" in page


def test_each_sub_command_has_a_chapter_with_its_options_and_no_other_has() -> None:
    page = text_of("docs/reference/cli.md")
    chapters = dict(re.findall(r"^## ([a-z]+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))

    assert set(chapters) == set(COMMANDS) | set(OURS)
    context = click.Context(cli)
    common = {option for parameter in cli.params for option in parameter.opts}
    for title, chapter in chapters.items():
        command = cli.get_command(context, title)
        assert command is not None
        below = command.commands.values() if isinstance(command, click.Group) else ()
        parameters = [parameter for each in (command, *below) for parameter in each.params]
        own = {option for parameter in parameters for option in parameter.opts if option.startswith("-")} - common
        assert {option for option in own if option not in chapter} == set()


def test_each_option_of_the_daemon_is_documented_and_no_other() -> None:
    page = text_of("docs/reference/configuration.md").partition("## The file")[0]
    listed = {option for cell in first_cells(page) for option in re.findall(r"--[a-z-]+", cell)}

    shown = [action for action in options.parser()._actions if action.help != argparse.SUPPRESS]  # noqa: SLF001
    assert listed == {option for action in shown for option in action.option_strings if option.startswith("--")}


def test_each_option_of_the_configuration_is_documented_and_no_other() -> None:
    page = text_of("docs/reference/configuration.md").partition("## The file")[2]
    listed = {cell.strip("`") for cell in first_cells(page) if cell.startswith("`")}

    assert listed == {field.metadata["name"] for field in dataclasses.fields(Config)}


def test_each_error_is_documented_and_no_other() -> None:
    listed = {span for span in spans(text_of("docs/reference/errors.md")) if re.fullmatch(r"\w+Error|Not\w+", span)}

    assert {cls.__name__ for cls in errors()} <= listed
    known = {cls.__name__ for cls in (*errors(), *others())}
    assert listed <= known


def errors() -> set[type[VolmgrError]]:
    for module in modules():
        importlib.import_module(module)
    found: set[type[VolmgrError]] = {VolmgrError}
    while (
        more := {sub for cls in found for sub in cls.__subclasses__() if sub.__module__.startswith("volmgr.")} - found
    ):
        found |= more
    return {cls for cls in found if not cls.__module__.startswith("volmgr.testing")}


def others() -> set[type[BaseException]]:
    found: set[type[BaseException]] = set()
    for module in modules():
        for _, cls in inspect.getmembers(importlib.import_module(module), inspect.isclass):
            if issubclass(cls, Exception) and cls.__module__ == module:
                found.add(cls)
    return found


def modules() -> list[str]:
    found = [info.name for info in pkgutil.walk_packages(volmgr.__path__, "volmgr.")]
    return [each for each in found if "contract.conftest" not in each and "__main__" not in each]


def test_each_plugin_is_in_the_readme_and_no_other_is_said_to_exist() -> None:
    listed = set(re.findall(r"\[(volmgr-\w+)\]\((plugins/\w+)/README.md\)", text_of("README.md")))

    there = {path.parent.name for path in (ROOT / "plugins").glob("*/pyproject.toml")}
    assert listed == {(f"volmgr-{each}", f"plugins/{each}") for each in there}


def test_each_file_that_the_architecture_names_is_there() -> None:
    page = text_of("docs/architecture.md").partition("## Where is …?")[2]
    code, _, rest = page.partition("Volume types are in")

    named = [span for span in spans(code) if re.fullmatch(r"[\w/]+\.py", span)]
    assert len(named) > 50
    assert [each for each in named if not (ROOT / "core/src/volmgr" / each).is_file()] == []
    assert [each for each in spans(rest) if each.startswith("tests/") and not (ROOT / each).is_dir()] == []


def test_each_source_file_that_a_page_names_is_there() -> None:
    for page in PAGES:
        named = [
            span for span in spans(page.read_text()) if re.fullmatch(r"(core|tests|scripts|contrib)/[\w/.-]+", span)
        ]
        assert [each for each in named if not (ROOT / each).exists()] == [], name(page)


def test_each_module_is_in_the_architecture_or_belongs_to_one_that_is() -> None:
    page = text_of("docs/architecture.md")
    core = ROOT / "core/src/volmgr"
    paths = [path for folder in (core, core / "kube") for path in folder.glob("*.py") if not path.name.startswith("__")]
    names = sorted(str(path.relative_to(core)) for path in paths)

    plain = {"errors.py", "logs.py", "operations.py", "offline.py"}  # their names say it, or a page of their own does
    assert [each for each in names if f"`{each}`" not in page and each not in plain] == []


def test_each_module_of_volmgr_csi_is_in_the_architecture_and_no_other() -> None:
    page = text_of("docs/architecture.md").partition("| behaviour of volmgr-csi |")[2].partition("\n\n")[0]
    package = ROOT / "plugins/csi/src/volmgr_csi"
    ours = [path for path in package.rglob("*.py") if path.parent.name not in {"v1", "registration"}]
    modules = {str(path.relative_to(package)) for path in ours if not path.name.startswith("__")}

    named = {span for span in spans(page) if span.endswith(".py")}
    assert named == modules - {"volume.py", "plugin.py", "contract.py"}


def test_each_module_of_volmgr_iscsi_is_in_the_architecture_and_no_other() -> None:
    page = text_of("docs/architecture.md").partition("| behaviour of volmgr-iscsi |")[2].partition("\n\n")[0]
    there = {path.name for path in (ROOT / "plugins/iscsi/src/volmgr_iscsi").glob("*.py")}

    assert {span for span in spans(page) if span.endswith(".py")} == there - {"__init__.py", "plugin.py", "contract.py"}


def test_each_message_of_the_troubleshooting_table_is_one_that_volmgr_gives() -> None:
    page = text_of("docs/operations.md").partition("## Troubleshooting")[2]
    messages = [cell.strip("`") for cell in first_cells(page) if cell.startswith("`")]
    assert len(messages) > 20

    source = " ".join(path.read_text() for path in sources())
    assert [message for message in messages if message not in source] == []


def sources() -> list[Path]:
    return [*(ROOT / "core/src/volmgr").rglob("*.py"), *(ROOT / "plugins").glob("*/src/**/*.py")]
