"""`volmgr doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from volmgr import ROOT
from volmgr.cli import checks, output, type_checks
from volmgr.cli.client import Unreachable
from volmgr.cli.session import Session, common_options
from volmgr.report.doctor import Finding

if TYPE_CHECKING:
    from volmgr.report.doctor import DoctorReport
    from volmgr.server.endpoints import Done


@click.command("doctor")
@click.option("--accept-manifests", is_flag=True, help="The manifests directory was moved on purpose: use it.")
@click.option("--accept-cluster", is_flag=True, help="The API server is the right one: Pods that it has not may go.")
@click.option("--root-dir", type=click.Path(path_type=Path), help="The root directory, when no daemon can be asked.")
@common_options
@click.pass_obj
def command(session: Session, *, accept_manifests: bool, accept_cluster: bool, root_dir: Path | None) -> None:
    """Look for what is wrong with this node.

    The root directory and its mount propagation, limits of inotify, tools, the socket, and what the daemon itself
    finds: sources, manifests, packages, drivers, hanging operations; and what each installed volume type says that it
    needs. Each with a remedy. Exits with 1 when anything is wrong; what may be right as it is, is a note.
    """
    client = session.client
    if accept_manifests or accept_cluster:
        body = client.post("/v1/manifests/accept" if accept_manifests else "/v1/cluster/accept")
        if session.json:
            output.print_json(body)
        else:
            click.echo(cast("Done", output.decode(body)).message)
        return
    findings: list[Finding] = []
    pid = 0
    try:
        report = cast("DoctorReport", output.decode(client.get("/v1/doctor")))
    except Unreachable as error:
        root = root_dir or Path(ROOT)
        findings.append(Finding("daemon", ok=False, detail=str(error), remedy="start volmgrd"))
    else:
        root = Path(report.root)
        pid = client.daemon_pid()
        findings.append(Finding("daemon", ok=True, detail=f"PID {pid} answers on {client.path}"))
        findings += [Finding(f.check, ok=f.ok, detail=f.detail, remedy=f.remedy) for f in report.findings]
    findings += checks.node(root, Path(session.socket), pid)
    findings += _types(root, is_served=bool(pid))
    _print(session, root, findings)
    if not all(finding.ok for finding in findings):
        raise SystemExit(1)


def _types(root: Path, *, is_served: bool) -> list[Finding]:
    """Let the volume types look at the node; what the daemon has said of packages is not said again."""
    from volmgr.discovery import load
    from volmgr.host.local import local_host

    plugins = load()
    return [*(() if is_served else type_checks.broken(plugins)), *type_checks.types(plugins, local_host(root))]


def _print(session: Session, root: Path, findings: list[Finding]) -> None:
    if session.json:
        rows = [{"check": f.check, "ok": f.ok, "detail": f.detail, "remedy": f.remedy} for f in findings]
        output.print_value({"root": str(root), "findings": rows})
        return
    for finding in findings:
        word = "WRONG" if not finding.ok else "note " if finding.remedy else "ok   "
        click.echo(f"{word} {finding.check}: {finding.detail}")
        if finding.remedy:
            click.echo(f"      -> {finding.remedy}")
