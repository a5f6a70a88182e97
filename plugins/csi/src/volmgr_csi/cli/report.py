"""`volmgr csi ls`, and how all of its commands show volumes and calls."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from volmgr.commands import Session, common_options, local_host, print_table, print_value
from volmgr_csi.cli.driver import failures_said
from volmgr_csi.cli.records import STATE, Damaged, Record, Records

if TYPE_CHECKING:
    from volmgr.plugin import Host
    from volmgr_csi.driver.connection import Observed


def state_host() -> Host:
    """Give this machine, with the state directory as its root."""
    return local_host(Path(os.environ.get("VOLMGR_CSI_STATE") or STATE))


def show_call(call: Observed) -> None:
    """Print a call that ended."""
    click.echo(f"{call.method:<27} {call.code or 'no status':<12} {call.seconds * 1000:.1f} ms")


def show_no_call(call: Observed) -> None:
    """Print nothing: JSON is wanted."""
    del call


@click.command("ls")
@common_options
@click.pass_obj
def ls(session: Session) -> None:
    """List what publish did and unpublish would undo, and what is really mounted."""
    host = state_host()
    records = Records(host)
    with failures_said():
        found = records.all()
    volumes = [each for each in found if isinstance(each, Record)]
    damaged = [each for each in found if isinstance(each, Damaged)]
    if session.json:
        broken = [{"record": str(each.path), "problem": each.problem} for each in damaged]
        print_value({"volumes": [shown(each, records, host) for each in volumes], "damaged": broken})
        return
    rows = [row for each in volumes for row in _rows(each, host)]
    if rows:
        print_table(("driver", "volume", "created", "attached", "staged", "published", "mounted", "target"), rows)
    elif not damaged:
        click.echo("nothing is published")
    for each in damaged:
        click.echo(f"damaged: {each.problem}")


def shown(record: Record, records: Records, host: Host) -> Mapping[str, object]:
    """Give a record for programs."""
    targets = [
        {
            "path": each.path,
            "read_only": each.read_only,
            "published": each.published,
            "mounted": host.mounts.is_mount_point(Path(each.path)),
        }
        for each in record.targets
    ]
    return {
        "driver": record.driver,
        "volume": record.volume,
        "volume_id": record.volume_id,
        "socket": record.socket,
        "created": record.created,
        "attached": record.attached,
        "staged": record.staged,
        "staging": record.staging,
        "targets": targets,
        "record": str(records.path(record.driver, record.volume)),
    }


def _rows(record: Record, host: Host) -> list[tuple[str, ...]]:
    name = record.volume if record.volume_id in ("", record.volume) else f"{record.volume} ({record.volume_id})"
    start = (record.driver, name, record.created, record.attached, record.staged)
    if not record.targets:
        return [(*start, "no", "no", "-")]
    return [
        (*start, each.published, "yes" if host.mounts.is_mount_point(Path(each.path)) else "no", each.path)
        for each in record.targets
    ]
