"""`volmgr plan`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from volmgr.cli import output
from volmgr.cli.failures import Failure
from volmgr.cli.session import Session, common_options

if TYPE_CHECKING:
    from volmgr.report.plan import PlanReport

WORK = 2
"""The exit code when something is to be done."""


@click.command("plan")
@click.option("--root-dir", type=click.Path(path_type=Path), help="Read this root directory, without a daemon.")
@click.option("--manifests", type=click.Path(path_type=Path), help="With --root-dir: the Pods of this directory.")
@common_options
@click.pass_obj
def command(session: Session, root_dir: Path | None, manifests: Path | None) -> None:
    """Show what would be done now, and why.

    In order, with reasons; nothing is changed. With --root-dir no daemon is asked: records, disk and mount table are
    read. Exits with 2 when there is work, 0 when there is none.
    """
    if manifests is not None and root_dir is None:
        raise click.UsageError("--manifests needs --root-dir")
    body = session.client.get("/v1/plan") if root_dir is None else _offline(root_dir, manifests)
    report = cast("PlanReport", output.decode(body))
    if session.json:
        output.print_json(body)
    else:
        _print(report)
    if report.operations:
        raise SystemExit(WORK)


def _offline(root: Path, manifests: Path | None) -> bytes:
    from volmgr import plain_json
    from volmgr.errors import VolmgrError
    from volmgr.offline import offline_world
    from volmgr.report.plan import plan_report

    try:
        return plain_json.encode(plan_report(offline_world(root, manifests)))
    except VolmgrError as error:
        raise Failure(str(error)) from None


def _print(report: PlanReport) -> None:
    for number, operation in enumerate(report.operations, 1):
        pod = f" for Pod {operation.pod or operation.pod_uid}" if operation.pod_uid else ""
        delayed = f" [{operation.delayed}]" if operation.delayed else ""
        click.echo(f"{number}. {operation.verb} {operation.volume}{pod}: {operation.reason}{delayed}")
    if not report.operations:
        click.echo("nothing to do")
    for waiting in report.waiting:
        click.echo(f"waits: {waiting.volume} of Pod {waiting.pod}: {waiting.waits_for}")
    for note in report.notes:
        click.echo(f"note: {note}")
