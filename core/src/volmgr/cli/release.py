"""`volmgr release`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from volmgr.cli import output
from volmgr.cli.client import quote
from volmgr.cli.session import Session, common_options

if TYPE_CHECKING:
    from volmgr.server.endpoints import Done


@click.command("release")
@click.argument("volume", metavar="pv/NAME")
@common_options
@click.pass_obj
def command(session: Session, volume: str) -> None:
    """Let another claim have a PersistentVolume whose claim is gone.

    What is on it stays there, for the next claim to find. Refused while a Pod uses it, or its claim is there.
    """
    name = volume.removeprefix("pv/")
    if not name or "/" in name:
        raise click.UsageError("write pv/NAME, such as pv/disk-1; volmgr claims lists the names")
    body = session.client.post(f"/v1/volumes/{quote(name)}/release")
    if session.json:
        output.print_json(body)
    else:
        click.echo(cast("Done", output.decode(body)).message)
