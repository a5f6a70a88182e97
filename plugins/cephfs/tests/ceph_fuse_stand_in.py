"""Stands in for ceph-fuse: reads its keyring, mounts an empty FUSE file system, says so, and serves it from then on.

Told SIGUSR1, it does as if its monitors were silent: who asks how full the file system is waits, and nobody else.

Source: `include/uapi/linux/fuse.h`.
"""

from __future__ import annotations

import errno
import os
import signal
import struct
import sys
from pathlib import Path

from volmgr.host import syscalls

_HEADER = struct.Struct("=IIQQIIII")  # length, opcode, unique, node, uid, gid, pid, padding
_ANSWER = struct.Struct("=IiQ")  # length, negative errno, unique
_ATTRIBUTES = struct.pack("=QII", 0, 0, 0) + struct.pack(
    "=6Q10I", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40755, 2, 0, 0, 0, 4096, 0
)
_UNLIMITED = (1 << 64) - 1  # inodes that are free, by CephFS
_STATFS = struct.pack("=5Q10I", 1 << 20, 1 << 19, 1 << 19, 100, _UNLIMITED, 4096, 255, 4096, 0, *[0] * 6)
_INIT = struct.pack("=IIIIHHII32s", 7, 31, 65536, 0, 0, 0, 65536, 1, b"")
_ANSWERS = {26: _INIT, 3: _ATTRIBUTES, 17: _STATFS, 27: bytes(16), 28: b"", 29: b"", 38: b""}
_SILENT = frozenset({2, 36, 42})  # FORGET, INTERRUPT, BATCH_FORGET
_LOOKUP = 1
_ASKS_MONITORS = frozenset({17})


def main(argv: list[str]) -> int:
    """Do what the command line of ceph-fuse says."""
    keyring, target = Path(argv[argv.index("-k") + 1]), argv[argv.index("-m") + 2]
    if "key = " not in keyring.read_text():
        sys.stderr.write("ceph-fuse[1]: no key\n")
        return 1
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    syscalls.mount("ceph-fuse", target, "fuse.ceph-fuse", 0, options)
    server = os.fork()
    if server:
        sys.stderr.write(f"ceph-fuse[{server}]: starting fuse\n")
        return 0
    for descriptor in range(3):
        os.close(descriptor)
    _serve(device)
    return 0


def _serve(device: int) -> None:
    silent = set(_SILENT)
    signal.signal(signal.SIGUSR1, lambda _number, _frame: silent.update(_ASKS_MONITORS))
    while True:
        try:
            data = os.read(device, 1 << 17)
        except OSError:  # unmounted
            return
        _, opcode, unique, *_ = _HEADER.unpack_from(data)
        if opcode in silent:
            continue
        body = _ANSWERS.get(opcode)
        failure = 0 if body is not None else -errno.ENOENT if opcode == _LOOKUP else -errno.ENOSYS
        answer = body or b""
        os.write(device, _ANSWER.pack(_ANSWER.size + len(answer), failure, unique) + answer)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
