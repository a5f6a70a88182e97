"""What is written ahead and read back: small versioned JSON files below `ROOT/volmgr/`.

Never secret data nor hashes of it, but below `Paths.secrets`. A damaged or newer record reads as None: the caller falls
back to what kubelet's own files and the mount table say.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from volmgr.errors import OperationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from volmgr.host.interface import Files

VERSION = 1
"""The format of our records; a higher one was written by a newer volmgr and is left alone."""

LIMIT = 16 << 20
"""Bytes; no record is longer (a manifest is at most 10 MiB)."""

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


def encode(kind: str, body: Mapping[str, object]) -> bytes:
    """Give the bytes of a record of this kind."""
    return msgspec.json.encode({"kind": kind, "version": VERSION, **body}) + b"\n"


def decode(kind: str, data: bytes | None) -> dict[str, object] | None:
    """Give a record's body; None when it is missing, damaged, of another kind or newer than this code."""
    if not data:
        return None
    try:
        body: object = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):  # the second: it is nested deeper than anything of ours
        return None
    if not isinstance(body, dict):
        return None
    fields = cast("dict[str, object]", body)
    version = fields.get("version")
    if fields.get("kind") != kind:
        return None
    if not isinstance(version, int) or version > VERSION:
        return None
    return {key: value for key, value in fields.items() if key not in {"kind", "version"}}


def write(
    files: Files, path: Path, kind: str, body: Mapping[str, object], *, durable: bool = False, again: bool = False
) -> None:
    """Write a record at once; `durable` survives a power cut, `again` replaces one that is there."""
    if not again:
        files.ensure_directory(path.parent, 0o700, parents_mode=0o700)
    files.write(path, encode(kind, body), 0o600, durable=durable)


def read(files: Files, path: Path, kind: str) -> dict[str, object] | None:
    """Read a record back; None as in `decode`."""
    return decode(kind, files.read(path, LIMIT))


def every(files: Files, directory: Path, kind: str) -> Iterator[tuple[Path, dict[str, object] | None]]:
    """Read each record of a directory, by its path; None where it is damaged. Raises OperationError."""
    for name in files.names(directory):
        if name.endswith(".json") and not name.startswith("."):
            body: dict[str, object] | None = None
            with suppress(OperationError):  # unreadable is damaged
                body = read(files, directory / name, kind)
            yield directory / name, body


def sweep(files: Files, state: Path) -> None:
    """Remove what a daemon that was killed while it wrote has left; nobody else may be writing."""
    kinds = (
        "pods",
        "objects",
        "holds",
        "sources",
        "claims",
        "tokens",
        "formatting",
        "volumes",
        "helpers",
        "provisioned",
    )
    for directory in (
        state,
        *(state / kind for kind in kinds),
        state / "secrets/objects",
        *(state / "csi" / kind for kind in ("attachments", "staged", "published")),
        *(state / owner / uid for owner in ("mounts", "secrets/tokens") for uid in files.names(state / owner)),
    ):
        with suppress(OperationError):  # it does no harm, and the next start tries again
            for name in files.names(directory):
                if name.startswith(".") and name.endswith(".tmp"):
                    files.remove_file(directory / name)


def file_name(name: str) -> str:
    """Give a file name for any unique name: readable when short and safe, else shortened with a digest."""
    safe = _UNSAFE.sub("~", name)
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
    return f"{safe[-120:].lstrip('.')}.{digest}.json"


def pod_mounts(state: Path, pod_uid: str) -> Path:
    """Give the directory of a Pod's mount records."""
    return state.joinpath("mounts", pod_uid)


def pod_mount(state: Path, pod_uid: str, spec_name: str) -> Path:
    """Give the path of the record of one pod mount."""
    return state.joinpath("mounts", pod_uid, file_name(spec_name))


def volume(state: Path, name: str) -> Path:
    """Give the path of the record of one attachable or device-mountable volume."""
    return state / "volumes" / file_name(name)
