"""`volmgr drain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from volmgr.cli import output
from volmgr.cli.client import GRACE
from volmgr.cli.session import Session, common_options
from volmgr.cli.timeouts import TIMEOUT

if TYPE_CHECKING:
    from volmgr.report.drain import Drained


@click.command("drain")
@click.option("--timeout", type=TIMEOUT, default="60s", show_default=True, help="As 30, 30s or 2m.")
@common_options
@click.pass_obj
def command(session: Session, timeout: float) -> None:
    """Take every volume down.

    Stopping the daemon leaves volumes mounted; this does not. What a hold or a running container needs stays, and what
    is of no known Pod until every source was read. Exits with 1, naming what is left and why, when the time is over.
    """
    body = session.client.post(f"/v1/drain?timeout={timeout:.3f}", timeout=timeout + GRACE)
    drained = cast("Drained", output.decode(body))
    if session.json:
        output.print_json(body)
    elif not drained.left:
        click.echo("nothing is mounted any more")
    if drained.left:
        lines = drained.reasons or drained.left
        click.echo("volmgr: still there when the time was over:\n  " + "\n  ".join(lines), err=True)
        raise SystemExit(1)
