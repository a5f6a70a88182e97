"""What the contract suite tries local with: a directory, a device with a file system, and a device as it is."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from volmgr.plugin import Host, VolumeMode
from volmgr.testing import Sample
from volmgr_local.plugin import LocalSource

_SIZE = 2 << 20


def samples(top: Path) -> Iterator[Sample]:
    """Give sources below a directory that the suite owns."""
    yield Sample(source=LocalSource(path=f"{top}/data"), arrange=partial(_directory, top))
    device = LocalSource(path=f"{top}/device", fs_type="ext4")
    yield Sample(source=device, arrange=partial(_device, top))
    yield Sample(source=device, arrange=partial(_device, top), spec={"mode": VolumeMode.BLOCK})


def _directory(top: Path, host: Host) -> None:
    host.files.ensure_directory(top / "data", 0o755)


def _device(top: Path, host: Host) -> None:
    """Make an empty disk, with a name of its own as udev gives it."""
    host.files.write(top / "disk.img", bytes(_SIZE))
    host.files.ensure_symlink(top / "device", str(host.block.attach_loop(top / "disk.img")))
