"""`volmgr orphans`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from volmgr.cli import output
from volmgr.cli.session import Session, common_options

if TYPE_CHECKING:
    from volmgr.report.orphans import OrphansReport


@click.command("orphans")
@common_options
@click.pass_obj
def command(session: Session) -> None:
    """Show what is there without a Pod or a claim, and why it was kept."""
    body = session.client.get("/v1/orphans")
    if session.json:
        output.print_json(body)
        return
    report = cast("OrphansReport", output.decode(body))
    orphans = report.orphans
    if not orphans and not report.problems:
        click.echo("nothing is left over")
    for orphan in orphans:
        click.echo("  ".join(filter(None, (orphan.pod_uid, orphan.path or orphan.volume, orphan.reason))))
    for problem in report.problems:
        click.echo(f"volmgr: {problem}", err=True)
