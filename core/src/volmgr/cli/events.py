"""`volmgr events`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from volmgr.cli import output
from volmgr.cli.session import Session, common_options

if TYPE_CHECKING:
    from volmgr.server.stream import EventReport

INTERRUPTED = 130
"""The shell's exit code for what Ctrl-C ended."""


@click.command("events")
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, over restarts of the daemon.")
@click.option(
    "--after",
    type=click.IntRange(min=0),
    default=0,
    metavar="NUMBER",
    help="Only those after this one; `-o json` shows the numbers.",
)
@common_options
@click.pass_obj
def command(session: Session, *, follow: bool, after: int) -> None:
    """Show what happened.

    Each event is printed, and flushed, as one line; with `-o json` as the JSON object that the API sends.
    """
    client = session.client
    lines = client.follow(after) if follow else iter(client.get(f"/v1/events?after={after}").splitlines())
    try:
        for line in lines:
            click.echo(line if session.json else _text(cast("EventReport", output.decode(line))))  # echo flushes
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def _text(event: EventReport) -> str:
    about = " ".join(word for word in (event.pod, event.volume) if word)
    times = f" (x{event.count})" if event.count > 1 else ""
    return f"{event.at} {event.severity:7} {event.reason}{f' {about}' if about else ''}: {event.message}{times}"
