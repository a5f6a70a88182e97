"""What the contract suite tries overlay with: each of the forms in which a Pod may name it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from volmgr.plugin import Host
from volmgr.testing import Sample

from .plugin import OverlayAttributes, OverlayOptions, OverlaySource


def samples(top: Path) -> Iterator[object]:
    """Give sources over two directories that have a file of one name."""
    over, base = top / "over", top / "base"
    texts = {"lower": f"{over}:{base}"}

    def arrange(host: Host) -> None:
        for layer in (over, base):
            host.files.ensure_directory(layer, 0o755)
            host.files.write(layer / "both", layer.name.encode(), 0o644)

    yield Sample(source=OverlaySource(lower=(str(over), str(base))), arrange=arrange)
    yield Sample(source=OverlayAttributes(volume_attributes=texts), arrange=arrange)
    yield Sample(source=OverlayOptions(options=texts), arrange=arrange)
