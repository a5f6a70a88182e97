"""Option strings of mount(8), split into flags for the kernel and data for the file system. Pure.

Source: mount(8) and `libmount/src/optmap.c`; what kubelet inherits on a bind: `mount-utils` `MakeBindOpts` and
`getBindMountOptions`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from volmgr.errors import SpecError

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_SYNCHRONOUS = 16
MS_REMOUNT = 32
MS_MANDLOCK = 64
MS_DIRSYNC = 128
MS_NOSYMFOLLOW = 256
MS_NOATIME = 1024
MS_NODIRATIME = 2048
MS_BIND = 4096
MS_REC = 16384
MS_SILENT = 32768
MS_UNBINDABLE = 1 << 17
MS_PRIVATE = 1 << 18
MS_SLAVE = 1 << 19
MS_SHARED = 1 << 20
MS_RELATIME = 1 << 21
MS_STRICTATIME = 1 << 24
MS_LAZYTIME = 1 << 25

_SET = {
    "ro": MS_RDONLY,
    "nosuid": MS_NOSUID,
    "nodev": MS_NODEV,
    "noexec": MS_NOEXEC,
    "sync": MS_SYNCHRONOUS,
    "dirsync": MS_DIRSYNC,
    "remount": MS_REMOUNT,
    "mand": MS_MANDLOCK,
    "nosymfollow": MS_NOSYMFOLLOW,
    "noatime": MS_NOATIME,
    "nodiratime": MS_NODIRATIME,
    "bind": MS_BIND,
    "rbind": MS_BIND | MS_REC,
    "silent": MS_SILENT,
    "relatime": MS_RELATIME,
    "strictatime": MS_STRICTATIME,
    "lazytime": MS_LAZYTIME,
}
_CLEAR = {
    "rw": MS_RDONLY,
    "suid": MS_NOSUID,
    "dev": MS_NODEV,
    "exec": MS_NOEXEC,
    "async": MS_SYNCHRONOUS,
    "nomand": MS_MANDLOCK,
    "symfollow": MS_NOSYMFOLLOW,
    "atime": MS_NOATIME,
    "diratime": MS_NODIRATIME,
    "loud": MS_SILENT,
    "norelatime": MS_RELATIME,
    "nostrictatime": MS_STRICTATIME,
    "nolazytime": MS_LAZYTIME,
}
_PROPAGATION = {
    prefix + name: flag | recursive
    for name, flag in (
        ("shared", MS_SHARED),
        ("slave", MS_SLAVE),
        ("private", MS_PRIVATE),
        ("unbindable", MS_UNBINDABLE),
    )
    for prefix, recursive in (("", 0), ("r", MS_REC))
}
# Words for mount(8), fstab and systemd that never reach the kernel.
_DROPPED = frozenset({"defaults", "_netdev", "auto", "noauto", "nofail", "user", "nouser", "users", "owner", "group"})

PER_MOUNT = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME | MS_RELATIME
"""Flags that belong to one mount, and that a bind inherits from its source."""


@dataclass(frozen=True, slots=True)
class MountOptions:
    """What an option string means: bits set and cleared, propagation to set afterwards, the file system's data."""

    flags: int = 0
    cleared: int = 0
    propagation: tuple[int, ...] = ()
    data: str = ""

    def over(self, inherited: int) -> int:
        """Give the flags after these options are applied over inherited ones."""
        base = inherited & ~self.cleared
        if self.flags & MS_STRICTATIME:
            base &= ~(MS_RELATIME | MS_NOATIME)
        return base | self.flags


def parse_options(options: Iterable[str]) -> MountOptions:
    """Split options as mount(8) does; each item may itself be a comma list. Raises SpecError for `loop`."""
    flags, cleared = 0, 0
    propagation: list[int] = []
    data: list[str] = []
    for option in split_options(options):
        if option == "loop" or option.startswith("loop="):
            raise SpecError("the mount option loop is not supported; attach the image as a device and mount that")
        if option in _SET:
            flags, cleared = flags | _SET[option], cleared & ~_SET[option]
        elif option in _CLEAR:
            flags, cleared = flags & ~_CLEAR[option], cleared | _CLEAR[option]
        elif option in _PROPAGATION:
            propagation.append(_PROPAGATION[option])
        elif option not in _DROPPED and not option.startswith(("x-", "X-", "comment=")):
            data.append(option)
    return MountOptions(flags, cleared, tuple(propagation), ",".join(data))


def split_options(options: Iterable[str]) -> list[str]:
    """Give single options; a comma inside double quotes (SELinux contexts) does not split."""
    found: list[str] = []
    for text in options:
        quoted = False
        start = 0
        for position, character in enumerate(text):
            if character == '"':
                quoted = not quoted
            elif character == "," and not quoted:
                found.append(text[start:position])
                start = position + 1
        found.append(text[start:])
    return [option for option in found if option]


def read_only_options(options: Iterable[str]) -> tuple[str, ...]:
    """Give options with `ro`, and without a `rw` that would undo it where it stands behind."""
    return tuple(dict.fromkeys((*(option for option in split_options(options) if option != "rw"), "ro")))


def masked(options: Iterable[str], sensitive: Iterable[str]) -> tuple[str, ...]:
    """Give options as a message may show them; `<masked>` stands for sensitive ones."""
    return (*options, *(["<masked>"] if list(sensitive) else []))
