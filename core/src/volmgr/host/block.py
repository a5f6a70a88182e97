"""Loop devices by ioctl, and facts about block devices.

Source: `include/uapi/linux/loop.h`. A loop device is found by device and inode of what backs it, which
LOOP_GET_STATUS64 tells: `losetup -j` compares paths, and misses files below a symlinked root (kubernetes#96888).
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from volmgr.errors import BusyError, OperationError
from volmgr.host import syscalls

_LOOP_CLR_FD = 0x4C01
_LOOP_GET_STATUS64 = 0x4C05
_LOOP_SET_CAPACITY = 0x4C07
_LOOP_CONFIGURE = 0x4C0A
_LOOP_CTL_GET_FREE = 0x4C82
_BLKGETSIZE64 = 0x80081272
_BLKGETDISKSEQ = 0x80081280  # since Linux 5.15
_LO_FLAGS_READ_ONLY = 1
_LO_FLAGS_AUTOCLEAR = 4
# loop_info64: device, inode, rdevice, offset, sizelimit, number, encrypt type and key size, flags, names, key, init
_INFO = struct.Struct("=5Q4I64s64s32s2Q")
_CONFIGURE_HEAD = struct.Struct("=II")  # descriptor, block size (0: the default)
_CONFIGURE_RESERVED = bytes(64)
_RACES = 32  # another process may take the free device first
_LAST_LOOKS = 2.0  # seconds for which others, such as udev, may still look at a device that was detached
_PAUSE = 0.01  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loop:
    path: Path
    device: int
    inode: int
    rdevice: int
    read_only: bool
    detaches_itself: bool


class LocalBlockDevices:
    """Block devices of this machine."""

    def attach_loop(self, backing: Path, *, read_only: bool = False) -> Path:
        """Give the loop device of a file or device, attaching one if there is none with the same access."""
        attempt = f"attach a loop device to {backing}"
        for loop in _loops_of(backing):
            if loop.read_only == read_only:
                return loop.path
        with syscalls.opened(backing, os.O_RDONLY if read_only else os.O_RDWR, attempt) as descriptor:
            device = _free_device(attempt)
            for _ in range(_RACES):
                if _configure(device, descriptor, backing, read_only=read_only):
                    return device
                device = _any_free_device(attempt)
        raise OperationError(f"cannot {attempt}: other processes took {_RACES} free devices first")

    def find_loops(self, backing: Path) -> tuple[Path, ...]:
        """Find the loop devices of a backing file or device; one of a deleted file by its path."""
        found = tuple(loop.path for loop in _loops_of(backing))
        return found or tuple(_loops_of_deleted(backing))

    def detach_loop(self, device: Path) -> None:
        """Detach a loop device; detached or missing is success.

        The kernel would say yes to one in use, and detach it with its last user: that is BusyError here. Who only looks
        at it, as udev does at each new one, is waited for: until then the file behind it is in use.
        """
        if not self.is_free(device):
            raise BusyError(f"cannot detach {device}: it is in use; unmount it first")
        try:
            with syscalls.opened(device, os.O_RDONLY, f"detach {device}") as descriptor:
                fcntl.ioctl(descriptor, _LOOP_CLR_FD)
        except OperationError:
            if device.exists():
                raise
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise syscalls.failed(f"detach {device}", error) from error
        end = time.monotonic() + _LAST_LOOKS
        while _is_attached(device.name) and time.monotonic() < end:
            time.sleep(_PAUSE)

    def size(self, device: Path) -> int:
        """Give the size of a block device in bytes."""
        attempt = f"read the size of {device}"
        with syscalls.opened(device, os.O_RDONLY, attempt) as descriptor:
            try:
                answer = fcntl.ioctl(descriptor, _BLKGETSIZE64, bytes(8))
            except OSError as error:
                raise syscalls.failed(attempt, error, "it must be a block device") from error
        return int.from_bytes(answer, sys.byteorder)

    def is_free(self, device: Path) -> bool:
        """Say whether nobody (a mount, device mapper, another O_EXCL, a loop device) uses the device.

        A loop device over another device claims it not: it is all that says that a Pod has that one as a block volume.
        """
        return _is_free(device) and not (_is_block(device) and _loops_of(device))

    def refresh_size(self, device: Path) -> None:
        """Let a loop device see that its backing file grew."""
        attempt = f"refresh the size of {device}"
        with syscalls.opened(device, os.O_RDONLY, attempt) as descriptor:
            try:
                fcntl.ioctl(descriptor, _LOOP_SET_CAPACITY)
            except OSError as error:
                raise syscalls.failed(attempt, error, "it must be an attached loop device") from error

    def read(self, device: Path, offset: int, length: int) -> bytes:
        """Read from a block device, or until its end."""
        attempt = f"read {device}"
        data = bytearray()
        with syscalls.opened(device, os.O_RDONLY, attempt) as descriptor:
            try:
                while len(data) < length and (more := os.pread(descriptor, length - len(data), offset + len(data))):
                    data += more
            except OSError as error:
                raise syscalls.failed(f"{attempt} at byte {offset + len(data)}", error) from error
        return bytes(data)

    def identity(self, device: Path) -> str:
        """Name a device by its number and the sequence number that the kernel gave its disk."""
        attempt = f"identify {device}"
        with syscalls.opened(device, os.O_RDONLY, attempt) as descriptor:
            number = os.fstat(descriptor).st_rdev
            try:
                answer = fcntl.ioctl(descriptor, _BLKGETDISKSEQ, bytes(8))
            except OSError as error:
                raise syscalls.failed(attempt, error, "it must be a block device, and Linux 5.15 or later") from error
        return f"{os.major(number)}:{os.minor(number)}#{int.from_bytes(answer, sys.byteorder)}"


def _is_block(device: Path) -> bool:
    try:
        return stat.S_ISBLK(os.stat(device).st_mode)
    except OSError:
        return False


def _is_free(device: Path) -> bool:
    try:
        if not stat.S_ISBLK(os.stat(device).st_mode):
            return True
        os.close(os.open(device, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
        return True
    except OSError as error:
        if error.errno == errno.EBUSY:
            return False
        if error.errno in {errno.ENOENT, errno.ENXIO, errno.ENODEV, errno.ENOMEDIUM}:
            return True
        raise syscalls.failed(f"open {device} exclusively", error) from error


def _loops_of(backing: Path) -> tuple[_Loop, ...]:
    try:
        wanted = os.stat(backing)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ENOTDIR}:
            return ()
        raise syscalls.failed(f"look at {backing}", error) from error
    if stat.S_ISBLK(wanted.st_mode):
        found = [loop for loop in _loops() if loop.rdevice == wanted.st_rdev]
    else:
        identity = (wanted.st_dev, wanted.st_ino)
        found = [loop for loop in _loops() if not loop.rdevice and (loop.device, loop.inode) == identity]
    return tuple(loop for loop in found if not _is_leaving(loop))


def _loops_of_deleted(backing: Path) -> Iterator[Path]:
    wanted = f"{os.path.realpath(backing)} (deleted)"
    for loop in _loops():
        with suppress(OSError):
            text = Path(f"/sys/block/{loop.path.name}/loop/backing_file").read_bytes()
            if os.fsdecode(text.rstrip(b"\n")) == wanted and not _is_leaving(loop):
                yield loop.path


def _loops() -> Iterator[_Loop]:
    """Look at each loop device, and claim none: a claim disturbs whoever mounts, formats or detaches it just then."""
    for name in _attached_names():
        path = Path("/dev") / name
        with suppress(OSError):  # detached meanwhile
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                loop = _status(path, descriptor)
            finally:
                os.close(descriptor)
            yield loop


def _is_leaving(loop: _Loop) -> bool:
    """Say whether a device was detached while somebody looked at it, as we do here: it goes when the last has looked.

    Only its exclusive users tell it from one that was mounted with `-o loop`. While it is asked for them it is held
    open, and so it cannot go, be attached by somebody else, and be claimed by us in their way.
    """
    if not loop.detaches_itself:
        return False
    try:
        descriptor = os.open(loop.path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        return _status(loop.path, descriptor) != loop or _is_free(loop.path)
    except OSError:  # it has nothing behind it any more
        return True
    finally:
        os.close(descriptor)


def _status(path: Path, descriptor: int) -> _Loop:
    answer = fcntl.ioctl(descriptor, _LOOP_GET_STATUS64, bytes(_INFO.size))
    device, inode, rdevice, _, _, _, _, _, flags, *_ = _INFO.unpack(answer)
    return _Loop(
        path=path,
        device=device,
        inode=inode,
        rdevice=rdevice,
        read_only=bool(flags & _LO_FLAGS_READ_ONLY),
        detaches_itself=bool(flags & _LO_FLAGS_AUTOCLEAR),
    )


def _loop_names() -> list[str]:
    names = [name for name in os.listdir("/sys/block") if name.startswith("loop")]
    return sorted(names, key=lambda name: (len(name), name))


def _attached_names() -> list[str]:
    return [name for name in _loop_names() if _is_attached(name)]


def _is_attached(name: str) -> bool:
    return os.path.isdir(f"/sys/block/{name}/loop")


def _free_device(attempt: str) -> Path:
    with syscalls.opened(Path("/dev/loop-control"), os.O_RDWR, attempt) as control:
        try:
            number = fcntl.ioctl(control, _LOOP_CTL_GET_FREE)
        except OSError as error:
            raise syscalls.failed(attempt, error) from error
    return Path(f"/dev/loop{number}")


def _any_free_device(attempt: str) -> Path:
    """Give one of those that nobody has: the kernel's answer is the same for all who ask until one of them has it."""
    attached = set(_attached_names())
    free = [name for name in _loop_names() if name not in attached]
    return Path("/dev") / secrets.choice(free) if free else _free_device(attempt)


def _configure(device: Path, backing_descriptor: int, backing: Path, *, read_only: bool) -> bool:
    """Attach; False when the device was taken meanwhile."""
    attempt = f"attach {device} to {backing}"
    flags = _LO_FLAGS_READ_ONLY if read_only else 0
    name = os.fsencode(backing)[:63]
    info = _INFO.pack(0, 0, 0, 0, 0, 0, 0, 0, flags, name, b"", b"", 0, 0)
    with syscalls.opened(device, os.O_RDONLY if read_only else os.O_RDWR, attempt) as descriptor:
        try:
            fcntl.ioctl(
                descriptor, _LOOP_CONFIGURE, _CONFIGURE_HEAD.pack(backing_descriptor, 0) + info + _CONFIGURE_RESERVED
            )
        except OSError as error:
            if error.errno == errno.EBUSY:
                return False
            raise syscalls.failed(attempt, error) from error
    return True
