"""From the bytes of an archive file to a tree: uncompressed, counted, and checked against what they must be. Pure.

What a compressed archive becomes is bounded while it is read, so that a bomb costs no more than the limit.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from typing import Protocol

from volmgr.errors import OperationError, SpecError, TransientError
from volmgr.host.interface import Unpacked, Unpacking
from volmgr.host.layers import PIECE, Layer, Tree
from volmgr.host.tar_entries import BadArchiveError

ALGORITHMS = {"sha256": 64, "sha512": 128}
"""Algorithms of digests, with the length of what they give in hexadecimal digits."""
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_GZIP_WINDOW = 31
_COMPRESSED = 1 << 16  # bytes of compressed input at a time
_TELL_EACH = 64 << 20  # bytes between two reports of progress


class Bytes(Protocol):
    """An open file: gives at most so many bytes, none at its end."""

    def __call__(self, size: int, /) -> bytes:
        """Read."""
        ...


def unpack(
    source: Bytes,
    tree: Tree,
    what: Unpacking,
    cancelled: Callable[[], bool],
    progress: Callable[[str], None],
) -> Unpacked:
    """Apply an archive to a tree; raises OperationError that names it and the entry, TransientError when cancelled."""
    try:
        run = _Run(source, what, cancelled, progress)
        Layer(tree, whiteouts=what.whiteouts, count=run.count).apply(run.read)
        run.finish()
    except BadArchiveError as error:
        raise OperationError(f"cannot unpack {what.name}: {error}") from error
    return Unpacked(content=run.content, entries=run.entries, archive=run.done)


def verify(source: Bytes, what: Unpacking, cancelled: Callable[[], bool]) -> None:
    """Read a file to its end and compare it with its digest and size; raises as `unpack`."""
    counted = _Counted(source, what)
    try:
        while counted.read(PIECE):
            _stop_if(cancelled, what)
        counted.compare()
    except BadArchiveError as error:
        raise OperationError(f"cannot use {what.name}: {error}") from error


def digest_parts(digest: str, name: str) -> tuple[str, str]:
    """Split a digest such as `sha256:0f…`; raises SpecError for what is none, or of an algorithm not known here."""
    algorithm, _, value = digest.partition(":")
    if ALGORITHMS.get(algorithm) != len(value) or value.strip("0123456789abcdef"):
        raise SpecError(f"{name} names the digest {digest[:80]!r}; known are {' and '.join(ALGORITHMS)}")
    return algorithm, value


class _Counted:
    """The file as it is, hashed while it is read."""

    def __init__(self, source: Bytes, what: Unpacking) -> None:
        self._source = source
        self._what = what
        self._hash = _hash(what.digest, what)
        self._size = 0

    def read(self, size: int) -> bytes:
        data = self._source(size)
        self._size += len(data)
        if self._what.size is not None and self._size > self._what.size:
            raise BadArchiveError(f"it is longer than the {self._what.size} bytes that its image says")
        if self._hash is not None:
            self._hash.update(data)
        return data

    def compare(self) -> None:
        if self._what.size is not None and self._size != self._what.size:
            raise BadArchiveError(f"it has {self._size} bytes, and its image says {self._what.size}")
        _compare(self._hash, self._what.digest, "its digest")


class _Run:
    """One archive while it is unpacked."""

    def __init__(
        self, source: Bytes, what: Unpacking, cancelled: Callable[[], bool], progress: Callable[[str], None]
    ) -> None:
        self._what = what
        self._cancelled = cancelled
        self._progress = progress
        self._file = _Counted(source, what)
        self._plain = _uncompressed(self._file.read)
        self._hash = _hash(what.content_digest, what)
        self._piece = b""
        self._taken = 0
        self.done = self.entries = self.content = self._said = 0

    def count(self, things: int, content: int) -> None:
        self.entries += things
        self.content += content
        if self.entries > self._what.entries_limit:
            raise BadArchiveError(f"it has more than {self._what.entries_limit} entries; raise the limit to allow more")

    def read(self, size: int) -> bytes:
        """Give exactly so many bytes of the tar archive."""
        taken = self._taken + size
        if taken <= len(self._piece):
            data, self._taken = self._piece[self._taken : taken], taken
            return data
        rest = [self._piece[self._taken :]]
        missing = size - len(rest[0])
        while missing > 0:
            if not self._fetch():
                raise BadArchiveError("it ends too early: it is cut off")
            rest.append(self._piece[:missing])
            self._taken = len(rest[-1])
            missing -= self._taken
        return b"".join(rest)

    def _fetch(self) -> bool:
        """Read the next piece, count it and hash it; False at the end."""
        _stop_if(self._cancelled, self._what)
        self._piece, self._taken = self._plain(PIECE), 0
        self.done += len(self._piece)
        if self.done > self._what.bytes_limit:
            limit = self._what.bytes_limit
            raise BadArchiveError(f"it unpacks to more than {limit} bytes; raise the limit to allow more")
        if self._hash is not None:
            self._hash.update(self._piece)
        if self.done - self._said >= _TELL_EACH:
            self._said = self.done
            self._progress(f"{self._what.name}: {self.done >> 20} MiB unpacked")
        return bool(self._piece)

    def finish(self) -> None:
        """Read what follows the last entry, and compare all of it."""
        while self._fetch():
            pass
        self._file.compare()
        _compare(self._hash, self._what.content_digest, "the digest of its content")


def _hash(digest: str, what: Unpacking) -> _Hash | None:
    return hashlib.new(digest_parts(digest, what.name)[0]) if digest else None


def _stop_if(cancelled: Callable[[], bool], what: Unpacking) -> None:
    if cancelled():
        raise TransientError(f"unpacking {what.name} was stopped: its Pod does not want it any more")


class _Hash(Protocol):
    """A hash that is being made."""

    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


def _compare(found: _Hash | None, wanted: str, what: str) -> None:
    if found is not None and found.hexdigest() != wanted.partition(":")[2]:
        algorithm = wanted.partition(":")[0]
        raise BadArchiveError(f"{what} is {algorithm}:{found.hexdigest()}, and its image says {wanted}; it is damaged")


def _uncompressed(read: Bytes) -> Bytes:
    """Look at how a file begins, and give a reader of what it is when uncompressed."""
    first = b""
    while len(first) < len(_ZSTD) and (more := read(PIECE)):
        first += more
    if first.startswith(_ZSTD):
        raise BadArchiveError("it is compressed by zstd, and its media type does not say so")
    plain = _Again(first, read)
    return _Gzip(plain).read if first.startswith(_GZIP) else plain


class _Again:
    """A file whose beginning was read already."""

    def __init__(self, first: bytes, rest: Bytes) -> None:
        self._first = first
        self._rest = rest

    def __call__(self, size: int, /) -> bytes:
        if not self._first:
            return self._rest(size)
        data, self._first = self._first[:size], self._first[size:]
        return data


class _Gzip:
    """Uncompresses one gzip member after the other."""

    def __init__(self, source: Bytes) -> None:
        self._source = source
        self._member = zlib.decompressobj(_GZIP_WINDOW)
        self._input = b""
        self._ended = False

    def read(self, size: int, /) -> bytes:
        """Give at most so many bytes; none at the end."""
        while not self._ended:
            if self._member.eof and not self._next_member():
                break
            if not self._input and not self._member.unconsumed_tail:
                self._input = self._source(_COMPRESSED)
                if not self._input:
                    raise BadArchiveError("it ends too early: it is cut off")
            try:
                data = self._member.decompress(self._member.unconsumed_tail + self._input, size)
            except zlib.error as error:
                raise BadArchiveError(f"it is damaged: {error}") from error
            self._input = b""
            if data:
                return data
        return b""

    def _next_member(self) -> bool:
        rest = self._member.unused_data.lstrip(b"\0")  # some writers pad
        while not rest:
            more = self._source(_COMPRESSED)
            if not more:
                self._ended = True
                return False
            rest = more.lstrip(b"\0")
        self._member = zlib.decompressobj(_GZIP_WINDOW)
        self._input = rest
        return True
