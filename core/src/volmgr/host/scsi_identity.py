"""Who a LUN says that it is: VPD page 0x83, read as udev's scsi_id reads it. Pure.

Source: SPC-4, 7.8.5 (designation descriptors), and `src/udev/scsi_id/scsi_serial.c` of systemd for which of several is
taken; SCSI names, which scsi_id does not know, come last and are written as multipath writes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_PAGE = 0x83
_HEAD = 4  # of the page and of each descriptor
_VENDOR_ID, _EUI, _NAA, _NAME = 1, 2, 3, 8  # designator types
_ASCII, _UTF8 = 2, 3  # code sets; 1 is binary
_PREFERRED = ((_NAA, 6), (_NAA, 5), (_NAA, None), (_EUI, None), (_VENDOR_ID, None), (_NAME, None))
"""Types, and formats of NAA: 6 is IEEE's extended registered one, 5 its registered one."""
_REFUSED = re.compile(r"[^0-9A-Za-z#+\-.:=@_/]")
"""What udev lets into no name; other alphabets, which it lets in, are in no identity of a disk."""


@dataclass(frozen=True, slots=True)
class _Designator:
    kind: int
    text: bool
    data: bytes

    @property
    def naa(self) -> int | None:
        """The format of an NAA designator, if it is written in bytes, as it should be."""
        return self.data[0] >> 4 if self.kind == _NAA and not self.text else None


def identity_of(page: bytes) -> str:
    """Give the WWID of the page of a LUN, such as `36001405…`; empty when it has none, or is damaged."""
    found = sorted(_designators(page), key=lambda each: each.text)  # of two of a kind scsi_id takes what is in bytes
    for kind, naa in _PREFERRED:
        for each in found:
            if each.kind == kind and naa in (None, each.naa):
                return _text(each)
    return ""


def as_udev_writes(identity: str) -> str:
    """Write it without white space, as udev and multipath name it."""
    words = "_".join(identity.partition("\0")[0].split())
    return _REFUSED.sub("_", words)


def _text(designator: _Designator) -> str:
    value = designator.data.decode("ascii", "replace") if designator.text else designator.data.hex()
    if designator.kind == _NAME:
        return as_udev_writes(_named(value))
    return as_udev_writes(f"{designator.kind}{value}")


def _named(name: str) -> str:
    """Give a SCSI name its type: those that write an NAA or an EUI out are one."""
    prefix, _, rest = name.partition(".")
    kind = {"naa": _NAA, "eui": _EUI}.get(prefix)
    return f"{_NAME}{name}" if kind is None else f"{kind}{rest.lower()}"


def _designators(page: bytes) -> Iterator[_Designator]:
    """Give those of the LUN itself: others name its port, or its target."""
    if len(page) < _HEAD or page[1] != _PAGE:
        return
    end = min(len(page), _HEAD + int.from_bytes(page[2:4], "big"))
    at = _HEAD
    while at + _HEAD <= end:
        code_set, kind, length = page[at] & 0x0F, page[at + 1], page[at + 3]
        data = page[at + _HEAD : at + _HEAD + length]
        if at + _HEAD + length > end:
            return
        if length and not kind & 0x30:
            yield _Designator(kind & 0x0F, code_set in {_ASCII, _UTF8}, data)
        at += _HEAD + length
