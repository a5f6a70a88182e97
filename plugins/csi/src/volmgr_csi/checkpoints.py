"""What is written ahead of calls, below `ROOT/volmgr/csi`, and what is read of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from volmgr import plugin
from volmgr.plugin import Host, OperationError

Body = Mapping[str, object]


class Checkpoints(plugin.Checkpoints):
    """The records of one kind; one that cannot be read is as good as a damaged one."""

    def __init__(self, host: Host, kind: str, *, durable: bool = True) -> None:
        """Use `ROOT/volmgr/csi/<kind>`."""
        super().__init__(host, "csi", kind, durable=durable)

    def read(self, name: str) -> Body | None:
        """Give a record; None when it is missing, damaged, unreadable or newer than this code."""
        try:
            return super().read(name)
        except OperationError:
            return None


def text(body: Body, key: str) -> str:
    """Give a text of a record; empty when it has none."""
    value = body.get(key)
    return value if isinstance(value, str) else ""


def texts(body: Body, key: str) -> dict[str, str]:
    """Give texts by name of a record; none when it has none."""
    value = body.get(key)
    items = cast("dict[object, object]", value).items() if isinstance(value, dict) else ()
    return {str(name): str(each) for name, each in items}
