"""Manifests as named on the command line: files, and directories as the daemon reads them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path


def manifests(names: Sequence[str]) -> Iterator[str]:
    """Give files: those that were named, and of a directory those that the daemon would read."""
    for name in names:
        if name == "-" or not os.path.isdir(name):
            yield name
            continue
        for path in sorted(Path(name).iterdir()):
            hidden = path.name.startswith(".") or path.name.endswith("~")
            if path.is_file() and not hidden:
                yield str(path)
