"""What a machine has that containers may use, by resource name: it stands in where nobody says what they may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volmgr.model.downward import Amounts
from volmgr.model.quantity import Quantity

if TYPE_CHECKING:
    from volmgr.host.interface import Host


def capacity(host: Host) -> Amounts:
    """Give processors, memory and the file system of the root directory; raises OperationError when that is gone."""
    found = {
        "cpu": host.kernel.processors,
        "memory": host.kernel.memory,
        "ephemeral-storage": host.mounts.file_system(host.paths.root).size,
    }
    return {name: Quantity.of(amount) for name, amount in found.items()}
