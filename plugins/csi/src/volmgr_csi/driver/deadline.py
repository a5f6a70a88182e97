"""Until when a call of a driver may take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volmgr_csi.settings import CsiSettings

if TYPE_CHECKING:
    from volmgr.plugin import Host


def seconds(host: Host, deadline: float) -> float:
    """Give what one call may take: `call_timeout`, and not longer than until a deadline on the host's clock."""
    return min(host.settings_of(CsiSettings).call_timeout, deadline - host.clock())
