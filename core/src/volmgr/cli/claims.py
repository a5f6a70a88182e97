"""`volmgr claims`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from volmgr.cli import output
from volmgr.cli.session import Session, common_options

if TYPE_CHECKING:
    from volmgr.report.claims import ClaimsReport

_SHORT = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


@click.command("claims")
@common_options
@click.pass_obj
def command(session: Session) -> None:
    """Show claims and PersistentVolumes, and which belongs to which."""
    body = session.client.get("/v1/claims")
    if session.json:
        output.print_json(body)
        return
    report = cast("ClaimsReport", output.decode(body))
    if not report.claims and not report.volumes:
        click.echo("no claims, and no PersistentVolumes")
    if report.claims:
        headings = ("claim", "phase", "volume", "requested", "modes", "mode", "class", "reason")
        claims = [
            (
                f"{claim.namespace}/{claim.name}",
                claim.phase,
                claim.volume,
                claim.requested,
                _modes(claim.access_modes),
                claim.volume_mode,
                claim.storage_class,
                claim.reason,
            )
            for claim in report.claims
        ]
        output.print_table(headings, claims)
    if report.volumes:
        columns = ("volume", "phase", "claim", "reclaim", "capacity", "modes", "mode", "class", "type", "reason")
        volumes = [
            (
                f"pv/{volume.name}",
                volume.phase,
                volume.claim,
                volume.reclaim_policy,
                volume.capacity,
                _modes(volume.access_modes),
                volume.volume_mode,
                volume.storage_class,
                volume.type,
                volume.reason,
            )
            for volume in report.volumes
        ]
        output.print_table(columns, volumes)
    deleting = {volume.reclaim_policy for volume in report.volumes if not volume.made} - {"Retain"}
    if deleting:
        policies = " and ".join(sorted(deleting))
        click.echo(f"nothing deletes or empties a volume here: a reclaim policy of {policies} does as Retain does")
    for complaint in report.complaints:
        click.echo(f"refused: {complaint}")


def _modes(modes: tuple[str, ...]) -> str:
    return ",".join(_SHORT.get(mode, mode) for mode in modes)
