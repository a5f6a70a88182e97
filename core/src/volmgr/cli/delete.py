"""`volmgr delete`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from volmgr.cli import output
from volmgr.cli.client import quote
from volmgr.cli.session import Session, common_options

if TYPE_CHECKING:
    from volmgr.server.engine import Deleted


@click.command("delete")
@click.argument("pod")
@common_options
@click.pass_obj
def command(session: Session, pod: str) -> None:
    """Delete a Pod that was applied.

    Its volumes are taken down once nobody holds it; `volmgr wait POD --for unmounted` waits for that. A Pod of a
    manifest file is refused, naming the file: remove that. One of a source that the daemon was started without may be
    deleted: nobody else would let it go.
    """
    body = session.client.request("DELETE", f"/v1/pods/{quote(pod)}")
    if session.json:
        output.print_json(body)
    else:
        deleted = cast("Deleted", output.decode(body))
        click.echo(f"Pod {pod} ({deleted.uid}) deleted" + (f": {deleted.note}" if deleted.note else ""))
