"""Sub-commands that installed packages bring, by the entry-point group `volmgr.commands`.

Which there are is read from the packages' own files: importlib.metadata takes 50 ms to import, and a whole command has
150. A package is imported when its command is used.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

import click

from volmgr.cli.failures import Failure

GROUP = "volmgr.commands"
"""The entry-point group in which a package names its commands: `NAME = module:object`, a click command."""

OURS = {"csi": ("volmgr-csi", "Call a CSI driver by its socket, without a daemon.")}
"""Commands of packages of this repository: which package, and the first line of the help."""


@dataclass(frozen=True, slots=True)
class Brought:
    """A sub-command that a package brings; `value` is where it is, `module:object`."""

    name: str
    value: str
    package: str

    @property
    def summary(self) -> str:
        """Say in a line what it does, or who knows."""
        package, summary = OURS.get(self.name, ("", ""))
        return summary if package == self.package else f"(a command of {self.package})"


def brought() -> dict[str, tuple[Brought, ...]]:
    """Give the commands of all packages by name: more than one is a conflict."""
    found: dict[str, tuple[Brought, ...]] = {}
    seen: set[str] = set()
    for package, text in _metadata():
        if package in seen:  # what comes first on the path is what is imported
            continue
        seen.add(package)
        for name, value in _entries(text):
            found[name] = (*found.get(name, ()), Brought(name, value, package))
    return dict(sorted(found.items()))


def command(claim: Brought, *others: Brought) -> click.Command:
    """Import a command; one that cannot be used, or that several packages bring, is one that says why."""
    if others:
        names = " and ".join(sorted(each.package for each in (claim, *others)))
        return _unusable(claim.name, f"command {claim.name} is brought by both {names}; uninstall one of them")
    module, _, path = claim.value.partition(":")
    try:
        found: object = attrgetter(path)(importlib.import_module(module))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a package's import does is a fault of that package
        return _unusable(claim.name, _broken(claim, f"{type(error).__name__}: {error}"), error)
    if not isinstance(found, click.Command):
        return _unusable(claim.name, _broken(claim, f"{claim.value} is no click command"))
    return found


def missing(name: str) -> str:
    """Say which package would bring a command, or nothing."""
    return f"no installed package brings the command {name!r}; install {OURS[name][0]}" if name in OURS else ""


def _broken(claim: Brought, problem: str) -> str:
    return (
        f"command {claim.name} of {claim.package} cannot be used: {problem}; install another version, or uninstall it"
    )


def _unusable(name: str, problem: str, error: BaseException | None = None) -> click.Command:
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    fail = partial(_fail, problem, error)
    return click.Command(name, callback=fail, context_settings=anything, add_help_option=False, short_help="(broken)")


def _fail(problem: str, error: BaseException | None) -> None:
    if error is not None:
        import traceback

        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    raise Failure(problem)


def _metadata() -> Iterator[tuple[str, str]]:
    """Give each package that brings commands, with its entry points as they are written."""
    for folder in sys.path:
        try:
            with os.scandir(folder or ".") as entries:
                names = sorted(entry.name for entry in entries if entry.name.endswith((".dist-info", ".egg-info")))
        except OSError:  # not there, or a zip file
            continue
        for name in names:
            try:
                with open(os.path.join(folder, name, "entry_points.txt"), encoding="utf-8") as file:
                    text = file.read()
            except (OSError, UnicodeDecodeError):  # most have none
                continue
            if f"[{GROUP}]" in text:
                yield name.rpartition(".")[0].partition("-")[0].replace("_", "-").lower(), text


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """Give the names and values of our group in an entry_points.txt, an INI file."""
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line
        elif section == f"[{GROUP}]" and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            yield name.strip(), value.partition("[")[0].strip()
