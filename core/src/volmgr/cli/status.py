"""`volmgr status`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from volmgr.cli import output
from volmgr.cli.client import quote
from volmgr.cli.session import Session, common_options

if TYPE_CHECKING:
    from volmgr.report.pods import PodStatus, StatusReport


@click.command("status")
@click.argument("pod", required=False)
@common_options
@click.pass_obj
def command(session: Session, pod: str | None) -> None:
    """Show all Pods, or one with its volumes."""
    body = session.client.get(f"/v1/pods/{quote(pod)}" if pod else "/v1/pods")
    if session.json:
        output.print_json(body)
    elif pod:
        _print_pod(cast("PodStatus", output.decode(body)))
    else:
        _print_pods(cast("StatusReport", output.decode(body)))


def _print_pods(report: StatusReport) -> None:
    if not report.ready:
        click.echo(f"not ready: {'; '.join(report.reasons)}")
    if report.drained:
        click.echo("the node is drained: nothing is mounted until volmgrd is started again")
    for line in report.contact:
        click.echo(line)
    if (reading := report.reading) is not None:
        click.echo(f"read from {reading.server}: watches {reading.watches}, objects asked for {reading.asked}")
    if report.pods:
        _print_table(report)
    else:
        click.echo("no Pods")
    for complaint in report.complaints:
        click.echo(f"refused: {complaint}")


def _print_table(report: StatusReport) -> None:
    headings = ("namespace", "name", "state", "volumes", "source", "reason")
    rows = [
        (pod.namespace, pod.name, pod.state, f"{pod.mounted}/{pod.wanted}", pod.origin or pod.source, pod.reason)
        for pod in report.pods
    ]
    output.print_table(headings, rows)


def _print_pod(pod: PodStatus) -> None:
    click.echo(f"Pod {pod.namespace}/{pod.name} ({pod.uid}): {pod.state}")
    click.echo(f"  from {pod.origin or pod.source} since {pod.since}")
    for hold in pod.holds:
        click.echo(f"  held by {hold.text} ({hold.id})")
    rows = [(" ".join(v.names), v.type or v.plugin, v.state, v.step, v.path) for v in pod.volumes]
    if rows:
        output.print_table(("volume", "type", "state", "step", "path"), rows)
    for volume in pod.volumes:
        if volume.message:
            click.echo(volume.message)
