"""What the contract suite tries hostPath with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from volmgr_hostpath.plugin import HostPathSource


def samples(top: Path) -> Iterator[HostPathSource]:
    """Give sources below a directory that the suite owns."""
    yield HostPathSource(path=f"{top}")
    yield HostPathSource(path=f"{top}", type="Directory")
    yield HostPathSource(path=f"{top}/made/deep", type="DirectoryOrCreate")
    yield HostPathSource(path=f"{top}/file", type="FileOrCreate")
