"""`volmgr adopt`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from volmgr.cli import output
from volmgr.cli.session import Session, common_options

if TYPE_CHECKING:
    from volmgr.server.endpoints import Done


@click.command("adopt")
@common_options
@click.pass_obj
def command(session: Session) -> None:
    """Take over a root directory that somebody else filled.

    A daemon that finds Pods below a root without records of its own changes nothing there until this is said: stop
    the kubelet (or whoever filled it) first.
    """
    body = session.client.post("/v1/adopt")
    if session.json:
        output.print_json(body)
    else:
        click.echo(cast("Done", output.decode(body)).message)
