"""`volmgr csi info` and `volmgr csi stats`: what a driver says."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING

import click

from volmgr.commands import TIMEOUT, Failure, Session, common_options, print_table, print_value
from volmgr_csi.cli.driver import calling, failures_said
from volmgr_csi.cli.parameters import Socket
from volmgr_csi.cli.records import Record, Records
from volmgr_csi.cli.report import show_no_call, state_host

if TYPE_CHECKING:
    from volmgr_csi.cli.described import Described

SOCKET = click.argument("endpoint", metavar="SOCKET", type=Socket())
LIMIT = click.option(
    "--timeout", type=TIMEOUT, default="2m", show_default=True, help="How long one call may take; kubelet's 2 min."
)


@click.command("info")
@SOCKET
@LIMIT
@common_options
@click.pass_obj
def info(session: Session, endpoint: str, timeout: float) -> None:
    """Ask a driver what it is, what it can do, and what it says of this node.

    GetPluginInfo, Probe, GetPluginCapabilities, ControllerGetCapabilities, NodeGetCapabilities and NodeGetInfo. Ends
    with 1 when one of them fails, unless the socket does not serve it at all.
    """
    from volmgr_csi.cli.described import described

    with failures_said(), calling(endpoint, timeout, show_no_call) as call:
        found = described(call)
    if session.json:
        print_value(dataclasses.asdict(found))
    else:
        _print(found)
    for problem in found.problems:
        click.echo(f"volmgr: {problem}", err=True)
    if found.problems:
        raise SystemExit(1)


def _print(found: Described) -> None:
    ready = {None: "does not say, which counts as ready", True: "ready", False: "not ready"}[found.ready]
    click.echo(f"driver      {found.name} {found.version}".rstrip())
    for key, value in sorted(found.manifest.items()):
        click.echo(f"manifest    {key}: {value}")
    click.echo(f"probe       {ready}")
    for title, names in (("plugin", found.plugin), ("controller", found.controller), ("node", found.node)):
        click.echo(f"{title:<12}{' '.join(names) or '-'}")
    if found.node_info is None:
        click.echo("this node   -")
        return
    click.echo(f"this node   {found.node_info.node_id}")
    click.echo(f"volumes     {f'at most {found.node_info.max_volumes}' if found.node_info.max_volumes else 'no limit'}")
    for key, value in sorted(found.node_info.topology.items()):
        click.echo(f"topology    {key}={value}")


@click.command("stats")
@SOCKET
@click.argument("volume")
@click.option("--path", help="Where it is published.  [default: the first target that publish knows]")
@LIMIT
@common_options
@click.pass_obj
def stats(session: Session, endpoint: str, volume: str, path: str | None, timeout: float) -> None:
    """Ask a driver how full a published VOLUME is (NodeGetVolumeStats)."""
    from volmgr_csi.cli.described import name_of
    from volmgr_csi.driver.methods import STATS
    from volmgr_csi.v1 import csi_pb2 as csi

    with failures_said(), calling(endpoint, timeout, show_no_call) as call:
        records = Records(state_host())
        record = records.read(records.directory(name_of(call), volume))
        question = csi.NodeGetVolumeStatsRequest(
            volume_id=record.volume_id if record else volume,
            volume_path=_path(volume, path, record),
            staging_target_path=record.staging if record else "",
        )
        answer = call(STATS, question)
    units = csi.VolumeUsage.Unit
    rows = [(units.Name(each.unit).lower(), each.total, each.used, each.available) for each in answer.usage]
    if session.json:
        names = ("unit", "total", "used", "available")
        print_value({"usage": [dict(zip(names, row, strict=True)) for row in rows]})
    else:
        print_table(("unit", "total", "used", "available"), [tuple(map(str, row)) for row in rows])


def _path(volume: str, path: str | None, record: Record | None) -> str:
    if path:
        return os.path.abspath(path)
    if record is None or not record.targets:
        message = f"publish knows of no target of {volume}; say where it is published with --path"
        raise Failure(message)
    return record.targets[0].path
