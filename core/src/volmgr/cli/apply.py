"""`volmgr apply`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from volmgr.cli import output
from volmgr.cli.client import Refused
from volmgr.cli.files import manifests
from volmgr.cli.session import Session, common_options

if TYPE_CHECKING:
    from volmgr.server.endpoints import Applied


@click.command("apply")
@click.option("-f", "--file", "files", multiple=True, required=True, metavar="FILE", help="YAML or JSON; - is stdin.")
@click.argument("more", nargs=-1, metavar="[FILE]...")
@common_options
@click.pass_obj
def command(session: Session, files: tuple[str, ...], more: tuple[str, ...]) -> None:
    """Send Pods to the daemon.

    They are stored before this returns, and stay over restarts until they are deleted. A file that is refused does
    not stop the others; the exit code is 1 then.
    """
    refused = False
    for file in manifests([*files, *more]):
        try:
            data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
            body = session.client.post("/v1/pods", data)
        except (Refused, OSError) as error:
            click.echo(f"volmgr: {file}: {error.strerror if isinstance(error, OSError) else error}", err=True)
            refused = True
            continue
        if session.json:
            output.print_json(body)
            continue
        for item in cast("Applied", output.decode(body)).results:
            name = f"{item.namespace}/{item.name}" if item.namespace else item.name
            click.echo(f"{item.kind} {name} {item.action}" + (f" ({item.uid})" if item.uid else ""))
    if refused:
        raise SystemExit(1)
