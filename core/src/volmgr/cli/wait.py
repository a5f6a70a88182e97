"""`volmgr wait`."""

from __future__ import annotations

import click

from volmgr.cli import output
from volmgr.cli.session import Session, common_options
from volmgr.cli.timeouts import TIMEOUT


@click.command("wait")
@click.argument("pod")
@click.option("--for", "condition", type=click.Choice(["mounted", "unmounted"]), default="mounted", show_default=True)
@click.option("--timeout", type=TIMEOUT, default="30s", show_default=True, help="As 30, 30s or 2m.")
@common_options
@click.pass_obj
def command(session: Session, pod: str, condition: str, timeout: float) -> None:
    """Wait until a Pod's volumes are mounted, or gone.

    A Pod that is not known yet is waited for; for `unmounted`, one of which nothing is left is gone. Exits with 1 and
    the reason on stderr when the time is over. Goes on waiting over a restart of the daemon.
    """
    body = session.client.wait(pod, condition, timeout)
    if session.json:
        output.print_json(body)
    else:
        click.echo(f"{pod}: {condition}")
