"""`volmgr delete`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from volmgr.cli import output
from volmgr.cli.client import GRACE, Refused, quote
from volmgr.cli.session import Session, common_options
from volmgr.cli.timeouts import TIMEOUT

if TYPE_CHECKING:
    from volmgr.server.endpoints import Done
    from volmgr.server.engine import Deleted

_VOLUMES = {"pvc": "claims", "pv": "volumes"}
"""Below which path of the API a volume is found by its claim, or by its own name."""
_UNKNOWN = 404
"""HTTP's status of what is not there."""


@click.command("delete")
@click.argument("pod", metavar="POD | pvc/[NAMESPACE/]NAME | pv/NAME")
@click.option("--data", is_flag=True, help="Delete the volume of a claim that is gone, with what is on it.")
@click.option(
    "--timeout", type=TIMEOUT, default="60s", show_default=True, help="How long to wait for --data: as 30, 30s or 2m."
)
@common_options
@click.pass_obj
def command(session: Session, pod: str, timeout: float, *, data: bool) -> None:
    """Delete a Pod that was applied, or the volume of a claim that is gone.

    Its volumes are taken down once nobody holds it; `volmgr wait POD --for unmounted` waits for that. A Pod of a
    manifest file is refused, naming the file: remove that. One of a source that the daemon was started without may be
    deleted: nobody else would let it go.

    `volmgr delete pvc/NAMESPACE/NAME --data` deletes a volume that was made for that claim, with all that is on it. It
    is refused while the claim is among the manifests or a Pod has it, and unless its reclaim policy is Delete.
    """
    kind, _, name = pod.partition("/")
    if kind in _VOLUMES and data:
        _delete_data(session, _VOLUMES[kind], name, timeout)
        return
    if data:
        raise click.UsageError("--data goes with pvc/NAMESPACE/NAME or pv/NAME; volmgr claims lists them")
    try:
        body = session.client.request("DELETE", f"/v1/pods/{quote(pod)}")
    except Refused as error:
        if kind not in _VOLUMES or error.status != _UNKNOWN:
            raise
        # Namespaces may be called so: only what is no Pod was meant as a volume.
        hint = f"to delete a volume with what is on it: volmgr delete {pod} --data"
        raise Refused(error.status, f"{error}; {hint}") from None
    if session.json:
        output.print_json(body)
    else:
        deleted = cast("Deleted", output.decode(body))
        click.echo(f"Pod {pod} ({deleted.uid}) deleted" + (f": {deleted.note}" if deleted.note else ""))


def _delete_data(session: Session, where: str, name: str, timeout: float) -> None:
    path = f"/v1/{where}/{quote(name)}?data=true&timeout={timeout:.3f}"
    body = session.client.request("DELETE", path, timeout=timeout + GRACE)
    if session.json:
        output.print_json(body)
    else:
        click.echo(cast("Done", output.decode(body)).message)
