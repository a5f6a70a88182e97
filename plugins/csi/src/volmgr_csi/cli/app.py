"""`volmgr csi`: the group. What each command needs of grpc and protobuf is imported when it calls a driver."""

from __future__ import annotations

import click

from volmgr.commands import common_options
from volmgr_csi.cli.info import info, stats
from volmgr_csi.cli.publish import publish, unpublish
from volmgr_csi.cli.report import ls


@click.group("csi")
@common_options
def command() -> None:
    """Call a CSI driver by its socket, without a daemon.

    For who develops a driver, or wants to know what one does. SOCKET is the path that the driver's --endpoint says.
    What publish does is recorded in /var/lib/volmgr-csi (or $VOLMGR_CSI_STATE) ahead of each call, so that unpublish
    can undo it, also after a crash. Volumes of Pods are the daemon's: leave those alone.
    """


for each in (info, publish, unpublish, stats, ls):
    command.add_command(each)
