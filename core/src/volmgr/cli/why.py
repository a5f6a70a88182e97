"""`volmgr why`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from volmgr.cli import output
from volmgr.cli.client import quote
from volmgr.cli.session import Session, common_options

if TYPE_CHECKING:
    from volmgr.server.endpoints import WhyPods


@click.command("why")
@click.argument("pod")
@common_options
@click.pass_obj
def command(session: Session, pod: str) -> None:
    """Say what is wrong with a Pod's volumes.

    Names each volume that is not as it should be: which step, since when, the last error, how often it failed, when
    it is tried again and what it waits for; also while a Pod leaves. Volumes that are fine are not named. Of a claim,
    pvc/[NAMESPACE/]NAME, it says which volume it has, or why it has none.
    """
    body = session.client.get(f"/v1/pods/{quote(pod)}/why")
    if session.json:
        output.print_json(body)
        return
    for report in cast("WhyPods", output.decode(body)).pods:
        click.echo(report.text)
