"""What the installed volume types ask of a node: each says it itself, in this process and never in the daemon's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from volmgr.errors import VolmgrError
from volmgr.report.doctor import Finding

if TYPE_CHECKING:
    from volmgr.host.interface import Host
    from volmgr.plugin import Requirement
    from volmgr.plugins import Plugins
    from volmgr.volume_type import VolumeType


def types(plugins: Plugins, host: Host) -> Iterator[Finding]:
    """Ask every type what it needs of the node; one that fails is a finding, and keeps no other from being asked."""
    for _, volume_type in sorted(plugins.types.items()):
        yield from _asked(volume_type, host)


def broken(plugins: Plugins) -> Iterator[Finding]:
    """Name the packages that cannot be used: who asks the daemon hears it from that one."""
    for each in plugins.broken:
        remedy = f"repair or uninstall {each.origin.distribution}"
        yield Finding(f"package {each.origin.distribution}", ok=False, detail=each.problem, remedy=remedy)


def _asked(volume_type: VolumeType, host: Host) -> Iterator[Finding]:
    try:
        requirements: tuple[Requirement, ...] = volume_type.ask("requirements", host)
    except VolmgrError as error:
        detail = f"it cannot be said what it needs: {error}"
        remedy = f"repair or upgrade {volume_type.origin.distribution}"
        yield Finding(volume_type.name, ok=False, detail=detail, remedy=remedy)
        return
    for each in requirements:
        yield Finding(
            f"{volume_type.name} {each.check}",
            ok=each.met or each.optional,
            detail=each.detail,
            remedy="" if each.met else each.remedy or f"the documentation of {volume_type.origin.distribution} says it",
        )
