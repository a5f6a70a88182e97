"""What the contract suite tries loop with: a disk with a file system, and one as it is."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from volmgr.plugin import CsiSource, Host, VolumeMode
from volmgr.testing import Sample

_SIZE = 2 << 20


def samples(top: Path) -> Iterator[Sample]:
    """Give sources below a directory that the suite owns."""
    image = top / "disk.img"
    source = CsiSource(driver="loop.test.volmgr", volume_handle="disk", volume_attributes={"image": str(image)})
    for mode in VolumeMode:
        yield Sample(source=source, spec={"mode": mode}, arrange=partial(_image, image))


def _image(image: Path, host: Host) -> None:
    host.files.write(image, bytes(_SIZE))
