"""`volmgr plugins new`: the package of a volume type, from the template that is installed with volmgr."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from volmgr.cli import output
from volmgr.cli.failures import Failure
from volmgr.cli.session import Session, common_options

if TYPE_CHECKING:
    from collections.abc import Sequence

_REFUSED = re.compile(r"^Validation error for question '(\w+)': ")
"""How copier begins what it says of an answer (`copier._user_data`); questions are named as options are."""

ABILITIES = ("attach", "device", "block", "expand", "measure", "reconstruct")


@click.command("new")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--name", help="Name of the package; default: the directory's.")
@click.option("--field", help="Field of a manifest that asks for such a volume.")
@click.option("--type", "qualified", metavar="NAME", help="Qualified name of the type, such as example.com/my-volume.")
@click.option("--ability", "abilities", type=click.Choice(ABILITIES), multiple=True, help="What its volumes can do.")
@click.option("--defaults", is_flag=True, help="Ask nothing.")
@common_options
@click.pass_obj
def command(
    session: Session,
    directory: Path,
    name: str | None,
    field: str | None,
    qualified: str | None,
    abilities: Sequence[str],
    *,
    defaults: bool,
) -> None:
    """Begin a volume type of your own: a package in DIRECTORY that works, with tests.

    What no option says is asked for on a terminal. Needs volmgr[new], no daemon, no git and no network.
    """
    given: dict[str, object] = {"name": name, "field": field, "type": qualified, "abilities": list(abilities) or None}
    answers = {key: value for key, value in given.items() if value is not None}
    path = _render(directory.absolute(), answers, ask=not defaults and sys.stdin.isatty())
    if session.json:
        output.print_value({"path": str(path)})
    else:
        click.echo(
            f"{directory} holds a volume type that works; {directory}/README.md says how to install and check it"
        )


def _render(directory: Path, answers: dict[str, object], *, ask: bool) -> Path:
    """Write the package; raises Failure, after which nothing is there."""
    from importlib.resources import as_file, files

    try:
        import copier
        from copier.errors import CopierError
    except ImportError as error:
        raise Failure(f"cannot read the template ({error}); pip install 'volmgr[new]'") from None
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise Failure(f"{directory} is there and not empty; name a directory that does not exist yet")
    try:
        with as_file(files("volmgr") / "plugin_template") as template:
            copier.run_copy(str(template), directory, answers, defaults=not ask, quiet=True)
    except (CopierError, ValueError, OSError) as error:
        reason = _REFUSED.sub(r"--\1: ", str(error))
        raise Failure(f"nothing was made of {directory}: {reason}") from None
    return directory
