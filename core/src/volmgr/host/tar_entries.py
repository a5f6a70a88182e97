"""Reads the entries of a tar archive from a stream, each field checked. Pure: the stream is the only effect.

Source of the formats: tar(5) of libarchive (ustar, GNU long names, pax headers), and `SCHILY.xattr.` of the OCI image
specification. The standard library's reader keeps a whole pax header in memory, whatever size it claims: this one does
not, and knows neither sparse files nor several volumes.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

BLOCK = 512
_HEADER_LIMIT = 1 << 20  # bytes of one pax header or long name; paths are at most 4096, xattrs at most 64 KiB each
_NOBODY = 0xFFFFFFFF  # as an owner: leave it as it is
_XATTR = "SCHILY.xattr."
_KINDS = {
    tarfile.REGTYPE: "file",
    tarfile.AREGTYPE: "file",
    tarfile.CONTTYPE: "file",
    tarfile.LNKTYPE: "hard link",
    tarfile.SYMTYPE: "symlink",
    tarfile.CHRTYPE: "character device",
    tarfile.BLKTYPE: "block device",
    tarfile.DIRTYPE: "directory",
    tarfile.FIFOTYPE: "fifo",
}
_NO_XATTRS: Mapping[str, bytes] = MappingProxyType({})

Read = Callable[[int], bytes]
"""Gives exactly so many bytes; raises BadArchiveError when there are fewer."""


class BadArchiveError(ValueError):
    """An archive is damaged, or holds what is refused; says what, in which entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry; `link` is what a hard link or symbolic link names, `size` the bytes of content that follow."""

    name: str
    kind: str
    mode: int
    uid: int
    gid: int
    size: int
    mtime: float
    link: str = ""
    xattrs: Mapping[str, bytes] = field(default_factory=lambda: _NO_XATTRS)


def entries(read: Read) -> Iterator[Entry]:
    """Give the entries in order; after a file its content must have been read, without the padding.

    Raises BadArchiveError.
    """
    further: dict[str, bytes] = {}
    while (header := _header(read)) is not None:
        match header.type:
            case tarfile.XGLTYPE:
                _extension(read, header)  # of the whole archive: comments of git archive
            case tarfile.XHDTYPE | tarfile.SOLARIS_XHDTYPE:
                further |= _pax(_extension(read, header))
                _check_length(further)
            case tarfile.GNUTYPE_LONGNAME:
                further["path"] = _extension(read, header).rstrip(b"\0")
            case tarfile.GNUTYPE_LONGLINK:
                further["linkpath"] = _extension(read, header).rstrip(b"\0")
            case _:
                entry = _entry(header, further)
                further = {}
                yield entry
                read(-entry.size % BLOCK)


def _header(read: Read) -> tarfile.TarInfo | None:
    block = read(BLOCK)
    if not any(block):
        return None  # the end is two such blocks; the second one is often missing
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise BadArchiveError(f"it has a damaged header: {error}") from error


def _extension(read: Read, header: tarfile.TarInfo) -> bytes:
    if not 0 <= header.size <= _HEADER_LIMIT:
        raise BadArchiveError(f"it has an extended header of {header.size} bytes; at most {_HEADER_LIMIT} are read")
    data = read(header.size)
    read(-header.size % BLOCK)
    return data


def _check_length(further: Mapping[str, bytes]) -> None:
    """Refuse headers that only add up, and would take all memory before any entry comes."""
    if sum(len(key) + len(value) for key, value in further.items()) > _HEADER_LIMIT:
        raise BadArchiveError(f"it has extended headers of more than {_HEADER_LIMIT} bytes for one entry")


def _pax(data: bytes) -> dict[str, bytes]:
    """Read lines of the form `LENGTH KEY=VALUE`, the length being that of the whole line."""
    found: dict[str, bytes] = {}
    start = 0
    while start < len(data):
        digits, space, _ = data[start : start + 21].partition(b" ")
        end = start + int(digits) if digits.isdigit() else 0
        key, equals, value = data[start + len(digits) + 1 : end].partition(b"=")
        if not space or not equals or end > len(data) or not value.endswith(b"\n"):
            raise BadArchiveError("it has a damaged pax header")
        found[key.decode("utf-8", "surrogateescape")] = value[:-1]
        start = end
    return found


def _entry(header: tarfile.TarInfo, further: Mapping[str, bytes]) -> Entry:
    name = _text(further.get("path"), header.name)
    kind = _KINDS.get(header.type)
    if kind is None or any(key.startswith("GNU.sparse.") for key in further):
        what = "a sparse file" if kind or header.type == tarfile.GNUTYPE_SPARSE else f"of type {header.type!r}"
        raise BadArchiveError(f"{shown(name)} is {what}, which is not read")
    if kind == "file" and name.endswith("/"):
        kind = "directory"  # as ancient tar wrote them
    size = _number(further.get("size"), header.size) if kind == "file" else 0
    link = _text(further.get("linkpath"), header.linkname)
    if size < 0 or "\0" in name or "\0" in link:
        raise BadArchiveError(f"{shown(name)} has a damaged header")
    return Entry(
        name=name,
        kind=kind,
        mode=header.mode & 0o7777,
        uid=_owner(further.get("uid"), header.uid),
        gid=_owner(further.get("gid"), header.gid),
        size=size,
        mtime=_seconds(further.get("mtime"), header.mtime),
        link=link,
        xattrs={key[len(_XATTR) :]: value for key, value in further.items() if key.startswith(_XATTR)},
    )


def shown(name: str) -> str:
    """Give an entry's name for a message: short, and without what a terminal would obey."""
    return repr(name if len(name) <= 200 else f"{name[:200]}…")  # noqa: PLR2004 - a line or two


def _text(value: bytes | None, otherwise: str) -> str:
    return otherwise if value is None else value.decode("utf-8", "surrogateescape")


def _number(value: bytes | None, otherwise: int) -> int:
    if value is None:
        return otherwise
    if not value.isdigit() or len(value) > 20:  # noqa: PLR2004 - 64 bits
        raise BadArchiveError("it has a damaged pax header: a number is none")
    return int(value)


def _owner(value: bytes | None, otherwise: int) -> int:
    number = _number(value, otherwise)
    if not 0 <= number < _NOBODY:
        raise BadArchiveError(f"it has an entry of the impossible owner {number}")
    return number


def _seconds(value: bytes | None, otherwise: float) -> float:
    try:
        seconds = float(otherwise if value is None else value)
    except ValueError as error:
        raise BadArchiveError("it has a damaged pax header: a time is none") from error
    return min(max(seconds, -(2.0**31)), 2.0**33) if seconds == seconds else 0.0  # noqa: PLR0124 - NaN
