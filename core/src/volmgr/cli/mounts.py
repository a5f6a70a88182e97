"""`volmgr mounts`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from volmgr.cli import output
from volmgr.cli.client import GRACE, quote
from volmgr.cli.session import Session, common_options
from volmgr.cli.timeouts import TIMEOUT

if TYPE_CHECKING:
    from volmgr.report.mounts import ContainerReport, MountsReport

HEADINGS = ("container", "target", "source", "access", "propagation", "volume")


@click.command("mounts")
@click.argument("pod")
@click.option("--format", "form", type=click.Choice(["table", "json", "oci"]), help="How to print.  [default: table]")
@click.option("--container", default="", metavar="NAME", help="Only this container: its subPaths, its mounts.")
@click.option("--timeout", type=TIMEOUT, default="30s", show_default=True, help="How long to wait for subPaths.")
@common_options
@click.pass_obj
def command(session: Session, pod: str, form: str | None, container: str, timeout: float) -> None:
    """Prepare what a Pod's containers are given, and print it.

    Binds the subPaths, then gives for each container what is mounted where, with which options, its block devices and
    its supplemental groups; `oci` is a fragment of a runtime's config.json for each container (for --container: that
    one). Run it before each start of a container. Its volumes must be mounted: see wait. Ends with 1 when anything
    cannot be had, and says what; the rest is printed all the same.
    """
    query = f"timeout={timeout:.3f}" + (f"&container={quote(container)}" if container else "")
    body = session.client.post(f"/v1/pods/{quote(pod)}/mounts?{query}", timeout=timeout + GRACE)
    report = cast("MountsReport", output.decode(body))
    form = form or ("json" if session.json else "table")
    if form == "json":
        output.print_json(body)
    elif form == "oci":
        _print_oci(report, single=bool(container))
    else:
        output.print_table(HEADINGS, [row for each in report.containers for row in _rows(each)])
    for problem in report.problems:
        click.echo(f"volmgr: {problem}", err=True)
    if report.problems:
        raise SystemExit(1)


def _print_oci(report: MountsReport, *, single: bool) -> None:
    from volmgr.cli.oci import fragments

    made = fragments(report.containers)
    what: object = next(iter(made.values())) if single else made
    output.print_value(what)


def _rows(container: ContainerReport) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (container.name, each.target, each.source or "-", each.options[-1], each.propagation, _volume(each))
        for each in container.mounts
    ]
    rows += [
        (container.name, each.path, each.source or "-", each.permissions, "device", each.volume)
        for each in container.devices
    ]
    return rows


def _volume(mount: object) -> str:
    sub_path, volume, note = (str(getattr(mount, name)) for name in ("sub_path", "volume", "note"))
    return volume + (f"/{sub_path}" if sub_path else "") + (f" ({note})" if note else "")
