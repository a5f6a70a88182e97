"""The images of a node below `ROOT/volmgr/images/`: unpacked once, shared by Pods, mounted for each.

    content/<digest>/rootfs, …/image.json, …/turn    an unpacked image, what it takes, when it was used last
    references/<key>.json                            which digest a reference stood for
    uses/<uid>/<volume>.json                         which image a Pod's volume uses, written ahead of its mount
    mounts/<uid>/<volume>                            where it is mounted
    pulls/<key>                                      what is downloaded of a reference so far
    work/<life>/<uid>.<volume>                       what one operation is making; of an earlier life: left by a crash

One daemon has the root, so that a lock of its process is enough between who claims an image and who lets it leave.
"""

from __future__ import annotations

import hashlib
import json
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from volmgr.plugin import Host, OperationError
from volmgr_image.documents import Fields, number, read_object, text, texts

LIFE = uuid.uuid4().hex[:16]
"""Names this life of the daemon, which has the root's lock: what another one left is nobody's."""
_CLAIMS = threading.Lock()
"""Held for a few small files: while an image is claimed and looked for, and while unused ones are moved away."""
_PRIVATE = 0o700
_OPTIONS = ("ro", "nosuid", "nodev", "noexec")
_SUFFIX = ".json"
_OPENERS = 15  # sets of secrets that are remembered, beside the last one


@dataclass(frozen=True, slots=True)
class Use:
    """One volume of one Pod."""

    uid: str
    volume: str


@dataclass(frozen=True, slots=True)
class Content:
    """One unpacked image; `turn` grows with each use of any image."""

    key: str
    size: int
    turn: int


class Cache:
    """The directories above, on one host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._top = host.paths.state / "images"

    # What a Pod's volume uses

    def place(self, use: Use) -> Path:
        """Give where a Pod's volume is mounted."""
        return self._top / "mounts" / use.uid / use.volume

    def work(self, use: Use) -> Path:
        """Give the directory in which an operation for a volume makes things, on the file system of the content."""
        return self._top / "work" / LIFE / f"{use.uid}.{use.volume}"

    def is_mounted(self, use: Use) -> bool:
        """Say whether a volume's mount is there and whole: a killed daemon may have left a writable one."""
        entry = self._host.mounts.entry(self.place(use))
        return entry is not None and set(_OPTIONS) <= set(entry.options)

    def claim(self, use: Use, reference: str, digest: str = "") -> bool:
        """Write down that a volume uses an image, from now on; says whether the image is there, which then stays."""
        path = self._marker(use)
        with _CLAIMS:
            self._directory(path.parent)
            self._write(path, {"digest": _key(digest), "reference": _hash(reference), "life": LIFE})
            return self.has(digest)

    def bind(self, use: Use, digest: str, options: Sequence[str] = ()) -> Path:
        """Mount an image for a volume that has claimed it; `options` cannot make it writable."""
        place = self.place(use)
        self._directory(place)
        self._host.mounts.ensure_bound(self.content(digest) / "rootfs", place, options=(*options, *_OPTIONS))
        return place

    def clear(self, use: Use) -> None:
        """Unmount a volume, and take away what an operation left half made; never mounted is success."""
        place = self.place(use)
        if self._host.files.info(place) is not None:  # else no long mount table need be read
            self._host.mounts.unmount_below(place)
            self._host.files.remove_directory(place)
        self._host.files.remove_directory(place.parent)
        self.clear_work(use)

    def release(self, use: Use) -> None:
        """Unmount a volume and forget that it uses an image."""
        self.clear(use)
        marker = self._marker(use)
        claim = self._read(marker)
        self._touch(text(claim, "digest"))
        self._host.files.remove_file(marker)
        self._host.files.remove_directory(marker.parent)
        if text(claim, "reference"):
            self._drop_pull(text(claim, "reference"))

    def clear_work(self, use: Use) -> None:
        """Take away what an operation for a volume made or left."""
        self._discard(self.work(use))

    # What was unpacked

    def content(self, digest: str) -> Path:
        """Give the directory of an unpacked image."""
        return self._top / "content" / _key(digest)

    def has(self, digest: str) -> bool:
        """Say whether an image is unpacked, whole."""
        return bool(digest) and self._host.files.info(self.content(digest) / "image.json") is not None

    def keep(self, made: Path, digest: str, reference: str, size: int) -> None:
        """Move an unpacked image (a directory with `rootfs` in it) to its place, unless another was quicker."""
        self._write(made / "image.json", {"digest": digest, "reference": reference, "bytes": size})
        self._directory(self.content(digest).parent)
        try:
            self._host.files.rename(made, self.content(digest))
        except OperationError:
            if not self.has(digest):
                raise

    def remember(self, reference: str, digest: str, source: str = "", secrets: Iterable[str] = ()) -> None:
        """Note which image a reference stands for, and (`source`) by which digest its registry knows it.

        `secrets` are the names of those with which the registry gave it now, beside those of earlier times.
        """
        path = self._reference(reference)
        self._directory(path.parent)
        mine = sorted(secrets)
        others = [each for each in self._opened_by(self._read(path)) if set(mine) - each] if mine else []
        known = [sorted(each) for each in others][-_OPENERS:]
        body = {"reference": reference, "digest": digest, "source": source, "secrets": [*known, mine]}
        self._write(path, body)

    def remembered(self, reference: str) -> tuple[str, str]:
        """Give the digest and the source that were noted for a reference, empty when it is unknown."""
        fields = self._read(self._reference(reference))
        return text(fields, "digest"), text(fields, "source")

    def is_open_to(self, reference: str, secrets: Iterable[str]) -> bool:
        """Say whether a registry gave the image to somebody who had no other secrets than these."""
        mine = set(secrets)
        return any(each <= mine for each in self._opened_by(self._read(self._reference(reference))))

    def _opened_by(self, fields: Fields) -> tuple[set[str], ...]:
        sets = fields.get("secrets")
        lists = cast("list[object]", sets) if isinstance(sets, list) else []
        return tuple(set(texts({"": cast("object", each)}, "")) for each in lists if isinstance(each, list))

    def pulls(self, reference: str) -> Path:
        """Give the directory of what is downloaded of a reference; it outlives an operation that is cut off."""
        return self._top / "pulls" / _hash(reference)

    def forget_pull(self, reference: str) -> None:
        """Take away what was downloaded."""
        self._discard(self.pulls(reference))

    # What leaves

    def evict(self, limit: int) -> None:
        """Let unused images leave, the least recently used first, until all take no more than `limit` bytes."""
        with _CLAIMS:
            left = [self._move_away(key) for key in self._superfluous(limit)]
        for path in left:
            self._discard(path)

    def _superfluous(self, limit: int) -> Iterator[str]:
        contents = sorted(self._contents(), key=lambda content: content.turn)
        size = sum(content.size for content in contents)
        claims = [claim for _, claim in self._uses()] if size > limit else []
        if not all(claims):
            return  # a damaged claim may be of any image
        used = {text(claim, "digest") for claim in claims}
        for content in contents:
            if size > limit and content.key not in used:
                size -= content.size
                yield content.key

    def _move_away(self, key: str) -> Path:
        for path in self._documents(self._top / "references"):
            if _key(text(self._read(path), "digest")) == key:
                self._host.files.remove_file(path)
        aside = self._top / "work" / LIFE / f"leaving-{uuid.uuid4().hex}"
        self._directory(aside.parent)
        self._host.files.rename(self._top / "content" / key, aside)
        return aside

    def sweep(self) -> None:
        """Take away, once in this life, what earlier ones left: work, downloads, mounts of Pods that nobody knows."""
        files, here = self._host.files, self._top / "work" / LIFE
        if files.info(here) is not None:
            return
        for life in files.names(here.parent):
            if life != LIFE:  # another mount may have just looked through
                self._discard(here.parent / life)
        for use, fields in tuple(self._uses()):
            if text(fields, "life") != LIFE and not any(files.info(path) for path in self._host.paths.records(use.uid)):
                self.release(use)
        for key in files.names(self._top / "pulls"):
            self._drop_pull(key)
        self._directory(here)

    def _drop_pull(self, key: str) -> None:
        """Take away what was downloaded, unless a volume still waits for it."""
        place = self._top / "pulls" / key
        if self._host.files.info(place) is not None and key not in {
            text(uses, "reference") for _, uses in self._uses()
        }:
            self._discard(place)

    def _uses(self) -> Iterator[tuple[Use, Fields]]:
        top = self._top / "uses"
        for uid in self._host.files.names(top):
            for path in self._documents(top / uid):
                yield Use(uid, path.name.removesuffix(_SUFFIX)), self._read(path)

    def _contents(self) -> Iterator[Content]:
        for key in self._host.files.names(self._top / "content"):
            yield self._content(key)

    def _content(self, key: str) -> Content:
        place = self._top / "content" / key
        size = number(self._read(place / "image.json"), "bytes")
        return Content(key, max(size, 0), max(number(self._read(place / "turn"), "turn"), 0))

    def _touch(self, key: str) -> None:
        """Let an image be the most recently used one; a number, since clocks are set back."""
        if key and self._host.files.info(self._top / "content" / key) is not None:
            turn = max((content.turn for content in self._contents()), default=0) + 1
            with suppress(OperationError):  # a full disk: what is to make room must not need any
                self._write(self._top / "content" / key / "turn", {"turn": turn})

    # Small things

    def _marker(self, use: Use) -> Path:
        return self._top / "uses" / use.uid / f"{use.volume}{_SUFFIX}"

    def _reference(self, reference: str) -> Path:
        return self._top / "references" / f"{_hash(reference)}{_SUFFIX}"

    def _documents(self, directory: Path) -> tuple[Path, ...]:
        names = self._host.files.names(directory)
        return tuple(directory / name for name in names if name.endswith(_SUFFIX) and not name.startswith("."))

    def _directory(self, path: Path) -> None:
        self._host.files.ensure_directory(path, _PRIVATE, parents_mode=_PRIVATE)

    def _write(self, path: Path, fields: Fields) -> None:
        self._host.files.write(path, json.dumps(fields).encode() + b"\n")

    def _read(self, path: Path) -> Fields:
        """Read one of our documents; a damaged one says nothing."""
        try:
            data = self._host.files.read(path)
            return {} if data is None else read_object(data, str(path))
        except OperationError:
            return {}

    def _discard(self, path: Path) -> None:
        if self._host.files.info(path) is not None:
            self._host.mounts.unmount_below(path)
            self._host.files.discard(path)


def _key(digest: str) -> str:
    return digest.replace(":", "-")


def _hash(reference: str) -> str:
    return hashlib.sha256(reference.encode()).hexdigest()[:32]
