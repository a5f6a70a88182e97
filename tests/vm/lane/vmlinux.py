"""Unpack the kernel of a vmlinuz: `python3 vmlinux.py VMLINUZ FILE`.

An emulated processor takes long to unpack it; qemu starts what is unpacked by PVH.
"""

import lzma
import struct
import subprocess
import sys
import zlib
from pathlib import Path

_SETUP_SECTORS, _PAYLOAD = 0x1F1, 0x248  # Documentation/arch/x86/boot.rst: setup_sects; payload_offset and _length
_SECTOR = 512


def unpacked(image: bytes) -> bytes:
    """Give the ELF file inside a bzImage."""
    offset, length = struct.unpack_from("<II", image, _PAYLOAD)
    start = ((image[_SETUP_SECTORS] or 4) + 1) * _SECTOR + offset
    payload = image[start : start + length]
    match payload[:4]:
        case b"\xfd7zX":
            kernel = lzma.LZMADecompressor().decompress(payload)
        case b"\x28\xb5\x2f\xfd":  # the length follows it
            kernel = subprocess.run(["zstd", "-dc"], input=payload[:-4], stdout=subprocess.PIPE, check=True).stdout
        case magic if magic[:2] == b"\x1f\x8b":
            kernel = zlib.decompressobj(31).decompress(payload)
        case magic:
            raise SystemExit(f"a kernel that is compressed as nobody knows: {magic!r}")
    if kernel[:4] != b"\x7fELF":
        raise SystemExit("what was unpacked is no kernel")
    return kernel


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.write_bytes(unpacked(source.read_bytes()))
