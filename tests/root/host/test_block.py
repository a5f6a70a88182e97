"""Loop devices on the real kernel."""

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from tests.eventually import eventually
from volmgr.errors import BusyError, OperationError
from volmgr.host.block import LocalBlockDevices
from volmgr.host.commands import LocalCommands
from volmgr.host.mounts import KernelMounts

MIB = 1 << 20


class Claims:
    """Hears of each exclusive open of this process, just before it. Audit hooks stay for ever, so there is one."""

    def __init__(self) -> None:
        self.heard: Callable[[Path], object] = Path
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_EXCL:
            self.heard(Path(str(arguments[0])))


CLAIMS = Claims()


@pytest.fixture
def claims() -> Iterator[Claims]:
    yield CLAIMS
    CLAIMS.heard = Path


@pytest.fixture
def block() -> LocalBlockDevices:
    return LocalBlockDevices()


@pytest.fixture
def image(root: Path, block: LocalBlockDevices) -> Iterator[Path]:
    image = root / "image"
    image.write_bytes(b"")
    os.truncate(image, 4 * MIB)
    yield image
    for device in block.find_loops(image):
        block.detach_loop(device)


@pytest.mark.usefixtures("descriptors")
def test_a_file_has_one_loop_device_however_often_it_is_asked_for(block: LocalBlockDevices, image: Path) -> None:
    device = block.attach_loop(image)
    assert block.attach_loop(image) == device
    assert block.find_loops(image) == (device,)
    assert block.size(device) == 4 * MIB
    block.detach_loop(device)
    block.detach_loop(device)
    assert block.find_loops(image) == ()


def test_a_loop_device_that_is_detached_under_somebody_s_eyes_is_not_used_again(
    block: LocalBlockDevices, image: Path
) -> None:
    leaving = block.attach_loop(image)
    looking = os.open(leaving, os.O_RDONLY)
    try:
        block.detach_loop(leaving)
        assert block.find_loops(image) == ()
        device = block.attach_loop(image)
    finally:
        os.close(looking)
    assert device != leaving
    assert block.size(device) == 4 * MIB
    assert block.find_loops(image) == (device,)


def test_who_looks_at_a_device_that_is_detached_is_waited_for(block: LocalBlockDevices, image: Path) -> None:
    device = block.attach_loop(image)
    looking = os.open(device, os.O_RDONLY)
    facts = Path(f"/sys/block/{device.name}/loop")

    def look_until_it_leaves() -> None:
        eventually(lambda: (facts / "autoclear").read_text() == "1\n", "that it leaves")
        os.close(looking)

    with ThreadPoolExecutor(1) as pool:
        looked = pool.submit(look_until_it_leaves)
        block.detach_loop(device)
        assert not facts.exists()
        looked.result()


def test_who_looks_for_a_loop_device_claims_none_of_others(
    block: LocalBlockDevices, image: Path, tmp_path: Path, claims: Claims
) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_bytes(bytes(MIB))
    leaving = block.attach_loop(theirs)
    looking = os.open(leaving, os.O_RDONLY)
    claimed: list[Path] = []
    try:
        block.detach_loop(leaving)
        claims.heard = claimed.append
        device = block.attach_loop(image)
        assert block.find_loops(image) == (device,)
        assert block.find_loops(tmp_path / "missing") == ()
    finally:
        os.close(looking)
    assert claimed == []


def test_a_leaving_loop_device_cannot_become_another_s_while_it_is_claimed(
    block: LocalBlockDevices, image: Path, claims: Claims
) -> None:
    leaving = block.attach_loop(image)
    looking = os.open(leaving, os.O_RDONLY)
    block.detach_loop(leaving)
    backing = Path(f"/sys/block/{leaving.name}/loop/backing_file")
    held: list[bool] = []

    def the_other_has_looked(device: Path) -> None:
        assert device == leaving
        os.close(looking)
        held.append(backing.exists())

    claims.heard = the_other_has_looked
    assert block.find_loops(image) == ()
    assert held == [True]
    assert not backing.exists()


def test_all_who_attach_at_once_get_a_device_each(block: LocalBlockDevices, tmp_path: Path) -> None:
    images = [tmp_path / str(number) for number in range(48)]
    for image in images:
        image.write_bytes(bytes(MIB))
    together = Barrier(len(images))

    def attach(image: Path) -> Path:
        together.wait()
        return block.attach_loop(image)

    try:
        with ThreadPoolExecutor(len(images)) as pool:
            devices = list(pool.map(attach, images))
        assert [block.find_loops(image) for image in images] == [(device,) for device in devices]
    finally:
        for image in images:
            for device in block.find_loops(image):
                block.detach_loop(device)


def test_a_loop_device_is_found_by_way_of_a_linked_root(block: LocalBlockDevices, image: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(image.parent)
    device = block.attach_loop(link / image.name)
    assert block.find_loops(image) == (device,)
    assert block.find_loops(link / image.name) == (device,)


def test_the_loop_device_of_a_deleted_file_is_found_by_its_path(block: LocalBlockDevices, image: Path) -> None:
    device = block.attach_loop(image)
    image.unlink()
    assert block.find_loops(image) == (device,)


def test_a_file_in_the_place_of_a_deleted_one_has_no_loop_device(block: LocalBlockDevices, image: Path) -> None:
    device = block.attach_loop(image)
    image.rename(image.with_name("old"))
    image.write_bytes(bytes(MIB))
    try:
        assert block.find_loops(image) == ()
    finally:
        block.detach_loop(device)


def test_a_loop_device_may_be_read_only(block: LocalBlockDevices, image: Path) -> None:
    device = block.attach_loop(image, read_only=True)
    assert Path(f"/sys/block/{device.name}/ro").read_text() == "1\n"
    assert block.attach_loop(image, read_only=True) == device


def test_a_loop_device_backed_by_another_is_found_by_its_number(block: LocalBlockDevices, image: Path) -> None:
    inner = block.attach_loop(image)
    outer = block.attach_loop(inner)
    try:
        assert outer != inner
        assert block.find_loops(inner) == (outer,)
        assert block.find_loops(image) == (inner,)
    finally:
        block.detach_loop(outer)


def test_a_grown_file_is_seen_after_a_refresh(block: LocalBlockDevices, image: Path) -> None:
    device = block.attach_loop(image)
    os.truncate(image, 8 * MIB)
    assert block.size(device) == 4 * MIB
    block.refresh_size(device)
    assert block.size(device) == 8 * MIB


def test_a_mounted_device_is_not_free_and_stays_attached(
    block: LocalBlockDevices, mounts: KernelMounts, image: Path, target: Path
) -> None:
    device = block.attach_loop(image)
    assert block.is_free(device)
    LocalCommands().run(["mkfs.ext4", "-q", "-F", str(device)])
    mounts.ensure_mounted(target, "ext4", source=str(device), options=["noatime"])
    assert mounts.file_system(target).type == "ext"
    assert not block.is_free(device)
    with pytest.raises(BusyError, match="it is in use"):
        block.detach_loop(device)
    mounts.unmount(target)
    assert block.is_free(device)


def test_a_device_under_a_loop_device_is_not_free(block: LocalBlockDevices, image: Path) -> None:
    """So the core holds what it has handed over as a block volume."""
    device = block.attach_loop(image)
    lock = block.attach_loop(device)
    assert not block.is_free(device)
    block.detach_loop(lock)
    assert block.is_free(device)


def test_a_mount_that_holds_a_loop_devices_file_names_the_device(
    block: LocalBlockDevices, mounts: KernelMounts, image: Path, target: Path
) -> None:
    mounts.ensure_mounted(target, "tmpfs")
    inner = target / "image"
    inner.write_bytes(bytes(MIB))
    device = block.attach_loop(inner)
    with pytest.raises(BusyError) as caught:
        mounts.unmount(target)
    assert caught.value.holders == (f"{device} (backed by {inner})",)
    block.detach_loop(device)


def test_what_is_no_block_device_is_free_and_has_no_size(block: LocalBlockDevices, image: Path) -> None:
    assert block.is_free(image)
    assert block.is_free(image.with_name("missing"))
    block.detach_loop(image.with_name("missing"))
    with pytest.raises(OperationError, match="must be a block device"):
        block.size(image)
    with pytest.raises(OperationError, match="ENOENT"):
        block.attach_loop(image.with_name("missing"))


def test_a_device_is_read_until_its_end(block: LocalBlockDevices, image: Path) -> None:
    image.write_bytes(b"start".ljust(4 * MIB, b"."))
    device = block.attach_loop(image)
    assert block.read(device, 2, 5) == b"art.."
    assert block.read(device, 4 * MIB - 2, 100) == b".."
    with pytest.raises(OperationError, match="cannot read"):
        block.read(image.with_name("missing"), 0, 1)


def test_a_device_that_takes_another_s_name_has_another_identity(block: LocalBlockDevices, image: Path) -> None:
    device = block.attach_loop(image)
    first = block.identity(device)
    assert block.identity(device) == first
    block.detach_loop(device)
    assert block.identity(block.attach_loop(image)) != first
    with pytest.raises(OperationError, match="it must be a block device"):
        block.identity(image)
