"""The node's paths as a driver sees them, and back. Pure.

A driver in a container may have another file system: then it is told other paths (`paths` of the configuration).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from volmgr_csi.settings import CsiSettings

if TYPE_CHECKING:
    from volmgr.plugin import Host


def seen_by(driver: str, path: Path, host: Host) -> str:
    """Give a path as a driver sees it."""
    mapped: Mapping[str, str] = host.settings_of(CsiSettings).paths.get(driver, {})
    fitting = [prefix for prefix in mapped if path.is_relative_to(prefix)]
    if not fitting:
        return str(path)
    longest = max(fitting, key=lambda prefix: len(Path(prefix).parts))
    return str(Path(mapped[longest]) / path.relative_to(longest))


def found_at(driver: str, path: str, settings: CsiSettings) -> str:
    """Give where a path of a driver is on the node: `seen_by`, backwards."""
    mapped = settings.paths.get(driver, {})
    fitting = [(Path(there), here) for here, there in mapped.items() if Path(path).is_relative_to(there)]
    if not fitting:
        return path
    there, here = max(fitting, key=lambda pair: len(pair[0].parts))
    return str(Path(here) / Path(path).relative_to(there))
