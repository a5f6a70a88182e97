"""What a driver may be called. Pure."""

from __future__ import annotations

import re

NAME_LIMIT = 63
"""Characters of a driver's name; the API server's, and CSI's."""

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*", re.ASCII)


def is_driver_name(name: str) -> bool:
    """Say whether a CSIDriver can have this name, by the API server's rule; as a directory it leads nowhere else."""
    return len(name) <= NAME_LIMIT and _NAME.fullmatch(name) is not None
