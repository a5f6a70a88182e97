"""Files of a volume, all replaced at once: kubelet's scheme on disk, and what repairs it.

Source: behaviours §3.1, which is `pkg/volume/util/atomic_writer.go` of kubelet 1.37. A directory named by the time
holds the files, the link `..data` names it, and for each first path element there is a link `NAME -> ..data/NAME`.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from volmgr.errors import OperationError, TransientError
from volmgr.model.file_paths import clean_path, clean_paths
from volmgr.model.payload import Payload, PayloadFile

if TYPE_CHECKING:
    from volmgr.host.interface import Files

log = logging.getLogger("volmgr.atomic")

DATA = "..data"
_DATA_TMP = "..data_tmp"
_STAMP = re.compile(r"\.\.\d{4}(_\d\d){5}\.\d+", re.ASCII)

Listing = Mapping[str, str | None]


def _nothing_first(_new: Path) -> None:
    """Publish at once."""


class AtomicWriter:
    """Writes the files of volumes; any call repairs what a crash of an earlier one left."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def is_published(self, directory: Path) -> bool:
        """Say whether a volume has files that were written whole."""
        return _is_stamp(self._files.read_link(directory / DATA))

    def read(self, directory: Path, path: str) -> bytes | None:
        """Give what a file has that everybody sees; None when there is none.

        Raises SpecError for a path that may not be, OperationError when it cannot be read.
        """
        stamp, clean = self._files.read_link(directory / DATA), clean_path(path)
        return self._files.read(directory / stamp / clean) if stamp is not None and _is_stamp(stamp) else None

    def write(
        self, directory: Path, payload: Payload, *, before_publish: Callable[[Path], None] = _nothing_first
    ) -> bool:
        """Let a directory have just these files, at once; True when they were not there already.

        Content, modes and owners count. `before_publish` is called with the new files' directory before anybody sees
        them; if it fails, the old ones stay. Raises SpecError for a path that may not be, OperationError for what is
        in the way of a link (a user's files stay) or a refusal of the file system, BusyError for old files that
        something is mounted in: the new ones are there, and the next write tries again.
        """
        payload = checked(payload)
        tops = {path.partition("/")[0] for path in payload}
        listing = self._files.links(directory)
        _refuse_obstacles(directory, tops, listing)
        if _DATA_TMP in listing:  # a crash between making and renaming it
            self._files.remove_tree(directory / _DATA_TMP)
        stamp = listing.get(DATA)
        # A container that may write here can name the directory of its choice: a link is none of ours.
        published = stamp if stamp is not None and _is_stamp(stamp) and listing.get(stamp) is None else None
        changed = published is None or not self._files.has_tree(directory / published, payload)
        if changed:
            published = self._publish(directory, payload, before_publish)
        self._link(directory, tops, listing)
        self._clear(directory, tops, listing, published)
        return changed

    def _publish(self, directory: Path, payload: Payload, before_publish: Callable[[Path], None]) -> str:
        stamp = _new_stamp()
        new = directory / stamp
        try:
            self._files.make_tree(new, payload)
            before_publish(new)
            self._replace_link(directory / DATA, stamp)
        except Exception:
            self._take_back(directory, stamp)
            raise
        return stamp

    def _take_back(self, directory: Path, stamp: str) -> None:
        """Leave nothing of files that nobody sees."""
        try:
            if self._files.read_link(directory / DATA) != stamp:
                self._files.remove_tree(directory / _DATA_TMP)
                self._files.remove_tree(directory / stamp)
        except (OperationError, TransientError) as error:
            log.warning("new files that nobody sees stay until the volume is written again: %s", error)

    def _replace_link(self, path: Path, target: str) -> None:
        """Make or replace a link at once; what a crash leaves of it is of the scheme."""
        temporary = path.with_name(_DATA_TMP)
        self._files.ensure_symlink(temporary, target)
        self._files.rename(temporary, path)

    def _link(self, directory: Path, tops: set[str], listing: Listing) -> None:
        for top in sorted(tops):
            target = f"{DATA}/{top}"
            if top not in listing:
                self._files.ensure_symlink(directory / top, target)
            elif listing[top] != target:
                self._replace_link(directory / top, target)

    def _clear(self, directory: Path, tops: set[str], listing: Listing, published: str | None) -> None:
        """Remove links that lead to nothing any more, then older files and what crashes left."""
        for name, target in listing.items():
            if target == f"{DATA}/{name}" and name not in tops:
                self._files.remove_file(directory / name)
        failures: list[OperationError | TransientError] = []
        for name in listing:
            if name != published and _STAMP.fullmatch(name):
                try:
                    self._files.remove_tree(directory / name)
                except (OperationError, TransientError) as error:  # the others go: each change would leave one more
                    failures.append(error)
        if failures:
            raise failures[0]


def checked(payload: Payload) -> dict[str, PayloadFile]:
    """Give a payload by clean paths; raises SpecError for one that leaves the volume or is none."""
    paths = clean_paths(payload)
    return {paths[path]: file for path, file in payload.items()}


def _refuse_obstacles(directory: Path, tops: set[str], listing: Listing) -> None:
    found = sorted(top for top in tops if top in listing and listing[top] is None)
    if found:
        raise OperationError(
            f"cannot link {directory / found[0]}: something that is no link is there; move it away, it is not ours"
        )
    if DATA in listing and listing[DATA] is None:
        raise OperationError(f"cannot link {directory / DATA}: something that is no link is there; move it away")


def _is_stamp(name: str | None) -> bool:
    return name is not None and _STAMP.fullmatch(name) is not None


def _new_stamp() -> str:
    return f"..{datetime.now(UTC):%Y_%m_%d_%H_%M_%S}.{secrets.randbelow(1 << 32)}"


def is_own(name: str, target: str | None) -> bool:
    """Say whether a name in a volume, and what it links to, is of the scheme rather than a user's."""
    return name in {DATA, _DATA_TMP} or _is_stamp(name) or target == f"{DATA}/{name}"
