"""`volmgr plugins`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from volmgr.cli import new_plugin, output
from volmgr.cli.session import Session, common_options
from volmgr.model.driver_sources import CSI_FIELD

if TYPE_CHECKING:
    from volmgr.report.installed import PluginsReport, SearchReport
    from volmgr.server.endpoints import Done

RELOAD = 300.0
"""Seconds for a reload: running operations are waited for, each to its deadline."""


@click.group("plugins", invoke_without_command=True)
@common_options
@click.pass_context
def command(ctx: click.Context) -> None:
    """Show the installed volume types; reload them; begin one.

    Those that the daemon uses, what each can do, the drivers that have registered, those that are not there, with why
    and what to do, and packages that are broken, with their traceback.
    """
    session: Session = ctx.obj
    if ctx.invoked_subcommand is not None:
        return
    body = session.client.get("/v1/plugins")
    if session.json:
        output.print_json(body)
    else:
        _print(cast("PluginsReport", output.decode(body)))


command.add_command(new_plugin.command)


@command.command("reload")
@common_options
@click.pass_obj
def reload(session: Session) -> None:
    """Use the packages that are installed now.

    The new set is checked first, and refused if it is worse. Running operations end, then the daemon executes itself
    anew: same process, same socket, nothing is unmounted, waiting clients go on.
    """
    client = session.client
    body = client.post("/v1/plugins/reload", timeout=RELOAD)
    client.await_end(RELOAD)
    after = client.get("/v1/plugins")
    if session.json:
        output.print_json(after)
        return
    click.echo(cast("Done", output.decode(body)).message)
    _print(cast("PluginsReport", output.decode(after)))


def _print(report: PluginsReport) -> None:
    rows = [
        (
            item.name,
            f"{item.distribution} {item.version}",
            " ".join(f"{field.field}:{field.driver}" if field.driver else field.field for field in item.fields),
            " ".join(item.abilities),
        )
        for item in report.types
    ]
    if rows:
        output.print_table(("type", "package", "fields", "abilities"), rows)
    else:
        click.echo("no volume type is installed; install one, such as volmgr-emptydir")
    _print_drivers(report)
    for wrapper in report.wrappers:
        click.echo(f"hooks: {wrapper.module} of {wrapper.distribution} {wrapper.version}")
    for broken in report.broken:
        click.echo(f"\nbroken: {broken.distribution} {broken.version} ({broken.entry_point}): {broken.problem}")
        for line in broken.traceback.rstrip().splitlines():
            click.echo(f"    {line}")


def _print_drivers(report: PluginsReport) -> None:
    rows = [
        (
            item.name,
            item.node_id,
            " ".join(f"{key}={value}" for key, value in vars(item.topology).items()) or "-",
            "-" if item.limit is None else str(item.limit),
            item.version or "-",
            item.since or "-",
            item.endpoint or "-",
            " ".join(item.capabilities) or "-",
        )
        for item in report.drivers
    ]
    if rows:
        click.echo("")
        headings = ("driver", "node id", "topology", "limit", "version", "since", "endpoint", "capabilities")
        output.print_table(headings, rows)
    for item in report.drivers:
        if item.problem:
            click.echo(f"the cluster is not told of {item.name}: {item.problem}")
    for search in report.searches:
        _print_search(search, report)


def _print_search(search: SearchReport, report: PluginsReport) -> None:
    """Say where drivers of a field are looked for, and what is not there."""
    click.echo(f"\ndrivers of {search.field} are looked for in {', '.join(search.places)}")
    if search.problem:
        click.echo(f"  none is found: {search.problem}")
    absent = [each for each in report.absent if each.field == search.field]
    there = {item.name for item in report.drivers}
    for heading, is_there in (("not there", False), ("there, and", True)):
        lines = [f"  {each.name}: {each.reason}" for each in absent if (each.name in there) is is_there]
        if lines:
            click.echo("\n".join((f"{heading}:", *lines)))
    if search.field == CSI_FIELD and not there and not absent and not search.problem:
        click.echo("no driver has registered; start one, and its registrar, or name its socket in the configuration")
