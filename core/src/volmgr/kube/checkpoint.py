"""What is secret and is kept for a start without a server, where `kubernetes.checkpoint_secrets` says so.

Tokens lie in `ROOT/volmgr/secrets/tokens/<pod uid>/`; Secrets beside them are the registry's (`sources.ledger`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from volmgr import records
from volmgr.errors import OperationError

if TYPE_CHECKING:
    from pathlib import Path

    from volmgr.host.interface import Files
    from volmgr.host.paths import Paths

log = logging.getLogger("volmgr.kube")

_KIND = "token"
_DIRECTORY = 0o700


class TokensOnDisk:
    """Tokens on disk until they end, or their Pod does; any thread may ask. `wall` is Unix time in seconds.

    Implements `kube.tokens.KeptTokens`.
    """

    def __init__(self, files: Files, paths: Paths, wall: Callable[[], float] = time.time) -> None:
        self._files = files
        self._secrets = paths.secrets
        self._tokens = paths.secrets / "tokens"
        self._wall = wall

    def get(self, pod_uid: str, key: str) -> bytes | None:
        """Give what was kept for a Pod under a key; None when it has ended, or cannot be read."""
        path = self._path(pod_uid, key)
        try:
            body = records.read(self._files, path, _KIND)
        except OperationError:
            body = None
        token, expires_at = (body or {}).get("token"), (body or {}).get("expires_at")
        if isinstance(token, str) and isinstance(expires_at, (int, float)):
            return token.encode() if self._wall() < expires_at else None
        with suppress(OperationError):
            if self._files.info(path) is not None:
                log.warning("the kept token %s is damaged or was written by a newer volmgr; it is asked for anew", path)
        return None

    def put(self, pod_uid: str, key: str, token: bytes, expires_at: float) -> None:
        """Keep a token until it ends (Unix time in seconds); raises OperationError when that fails."""
        path = self._path(pod_uid, key)
        for directory in (self._secrets, self._tokens, path.parent):
            self._files.ensure_directory(directory, _DIRECTORY, exact=True)
        body = {"key": key, "token": token.decode("ascii"), "expires_at": expires_at}
        records.write(self._files, path, _KIND, body, durable=True)

    def forget(self, pod_uid: str) -> None:
        """Remove all of a Pod's; raises OperationError."""
        _empty(self._files, self._tokens / pod_uid)

    def retain(self, pod_uids: Collection[str]) -> None:
        """Remove those of all Pods but these; raises OperationError."""
        for uid in self._files.names(self._tokens):
            if uid not in pod_uids:
                self.forget(uid)

    def _path(self, pod_uid: str, key: str) -> Path:
        return self._tokens / pod_uid / records.file_name(key)


def forget_secrets(files: Files, paths: Paths) -> int:
    """Remove everything secret that was kept, and say how many files that were; raises OperationError."""
    tokens = paths.secrets / "tokens"
    directories = (paths.secrets / "objects", *(tokens / uid for uid in files.names(tokens)), tokens, paths.secrets)
    return sum(_empty(files, directory) for directory in directories)


def _empty(files: Files, directory: Path) -> int:
    """Remove the files of a directory so that a power cut does not bring them back, and the directory."""
    count = 0
    for path in tuple(_regular(files, directory)):
        files.remove_file(path, durable=True)
        count += 1
    files.remove_directory(directory)
    return count


def _regular(files: Files, directory: Path) -> Iterator[Path]:
    for name in files.names(directory):
        info = files.info(directory / name)
        if info is not None and info.kind != "directory":
            yield directory / name
