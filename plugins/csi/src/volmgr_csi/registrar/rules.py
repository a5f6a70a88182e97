"""What may register, and what a driver's answers say. Pure.

Source: `behaviours.md` §4.11, which is `pkg/volume/csi` and `pkg/kubelet/pluginmanager` of kubelet 1.37.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from volmgr.plugin import OperationError
from volmgr_csi.driver.drivers import Abilities
from volmgr_csi.driver.names import NAME_LIMIT, is_driver_name
from volmgr_csi.driver.sanitizer import brief
from volmgr_csi.driver.service_capabilities import (
    EXPAND_VOLUME,
    GET_VOLUME_STATS,
    SINGLE_NODE_MULTI_WRITER,
    STAGE_UNSTAGE_VOLUME,
    VOLUME_MOUNT_GROUP,
)

PLUGIN_TYPE = "CSIPlugin"
"""What a registration socket says of a CSI driver; there are device plugins and DRA drivers, too."""

NODE_INFO = "NodeGetInfo"
"""The call whose failure keeps a driver from being registered, of which its registrar hears."""

BACKOFF, BACKOFF_MAX = 0.5, 122.0
"""Seconds between two attempts of one unchanged socket; kubelet's, which doubles up to 2 min 2 s."""

Version = tuple[int, ...]

CONFIGURED: Version = ()
"""The version of a driver that the configuration names: lower than any, so that it yields to one that registers."""

_NUMBERS = re.compile(r"\s*v?(\d{1,18}(?:\.\d{1,18})+)(?!\d)", re.ASCII)
"""Numbers that kubelet reads: it refuses those that 64 bits do not hold."""


class RefusedError(OperationError):
    """Who registers is told that it may not; the message says why."""


def check_name(name: str) -> None:
    """Refuse a name that no CSIDriver can have, and that would lead elsewhere as a directory."""
    if not is_driver_name(name):
        rule = f"it must be a DNS subdomain of at most {NAME_LIMIT} characters"
        raise RefusedError(f"the csi driver's name '{brief(name)}' is none: {rule}")


def highest_version(versions: Sequence[str]) -> Version:
    """Give the highest version of CSI that is ours too, which has to be 1.x; raises RefusedError."""
    if not versions:
        raise RefusedError("it names no version of CSI; supported_versions must have a 1.x")
    read = [version for text in versions if (version := _version(text)) is not None and version[0] <= 1]
    highest = max(read, default=(0,))
    if highest[0] != 1:
        raise RefusedError(f"it supports {brief(', '.join(versions))} of CSI and no 1.x, which is needed")
    return highest


def _version(text: str) -> Version | None:
    """Read as apimachinery's ParseGeneric does: what follows the numbers does not count, nor do zeros at the end."""
    found = _NUMBERS.match(text)
    if found is None:
        return None
    major, *minor = found[1].split(".")
    if major.startswith("0") and major != "0":
        return None
    numbers = [int(major), *map(int, minor)]
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def abilities(capabilities: Iterable[str]) -> Abilities:
    """Give what a node service can do, by CSI's names."""
    names = frozenset(capabilities)
    return Abilities(
        stage=STAGE_UNSTAGE_VOLUME in names,
        expand=EXPAND_VOLUME in names,
        stats=GET_VOLUME_STATS in names,
        mount_group=VOLUME_MOUNT_GROUP in names,
        single_node_multi_writer=SINGLE_NODE_MULTI_WRITER in names,
    )


def back_off(failures: int) -> float:
    """Give the seconds to wait after so many failures in a row."""
    return min(BACKOFF * (1 << min(failures - 1, 10)), BACKOFF_MAX)
