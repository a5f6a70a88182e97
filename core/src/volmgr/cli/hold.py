"""`volmgr hold`."""

from __future__ import annotations

import json
import os
import shlex
from typing import TYPE_CHECKING, cast

import click

from volmgr.cli import output
from volmgr.cli.client import quote
from volmgr.cli.session import Session, common_options

if TYPE_CHECKING:
    from volmgr.server.endpoints import HoldMade

NOT_FOUND = 127
"""The shell's exit code for a command that cannot be executed."""


@click.command("hold")
@click.argument("words", nargs=-1, required=True, metavar="POD [-- CMD...]")
@click.option("--pid", type=click.IntRange(min=1), help="Hold while this process lives.")
@click.option("--release", metavar="ID", help="Give a hold back; `hold --pid` and `status POD` show its ID.")
@common_options
@click.pass_obj
def command(session: Session, words: tuple[str, ...], pid: int | None, release: str | None) -> None:
    """Keep a Pod's volumes mounted while a process lives.

    With `-- CMD` the command is executed in place of this one, and held for as long as it runs. When the Pod leaves,
    its volumes are taken down after the last hold is gone.
    """
    pod, *argv = words
    if sum((pid is not None, release is not None, bool(argv))) != 1:
        raise click.UsageError("say which process holds the Pod: either --pid PID or -- CMD (or --release ID)")
    if release is not None:
        body = session.client.request("DELETE", f"/v1/holds/{quote(release)}")
        if session.json:
            output.print_json(body)
        else:
            click.echo(f"{pod}: hold {release} released")
        return
    who = shlex.join(argv) if argv else ""
    request = {"pod": pod, "pid": pid or os.getpid(), "who": who}
    body = session.client.post("/v1/holds", json.dumps(request).encode())
    made = cast("HoldMade", output.decode(body))
    if argv:
        _execute(session, argv, made.id)
    elif session.json:
        output.print_json(body)
    else:
        click.echo(f"{pod}: held by PID {made.pid} ({made.id})")


def _execute(session: Session, argv: list[str], hold: str) -> None:
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - this process becomes the command: same PID and start time
    except OSError as error:
        session.client.request("DELETE", f"/v1/holds/{quote(hold)}")
        click.echo(f"volmgr: cannot execute {argv[0]}: {error.strerror}", err=True)
        raise SystemExit(NOT_FOUND) from None
