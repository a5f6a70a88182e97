"""The kernel says that a device changed, and who waits for one looks again."""

from __future__ import annotations

from pathlib import Path

from volmgr.host.interface import Host


def test_a_device_that_appears_is_heard_of(host: Host, tmp_path: Path) -> None:
    image = tmp_path / "disk.img"
    image.write_bytes(bytes(1 << 20))
    attached: list[Path] = []

    def look() -> Path | None:
        if attached:
            return attached[0]
        attached.append(host.block.attach_loop(image))
        return None

    try:
        assert host.scsi.awaited(look, deadline=30.0) == attached[0]
    finally:
        for loop in attached:
            host.block.detach_loop(loop)
