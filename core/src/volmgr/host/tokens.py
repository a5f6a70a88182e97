"""Issues service account tokens by a key of our own, and keeps the key set with which others check them.

Below `ROOT/volmgr/tokens`: `key.pem` (0600), made once and never replaced, and `jwks.json` (0644), a JSON Web Key Set.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from volmgr.errors import OperationError, extra_needed
from volmgr.host.interface import Files
from volmgr.host.paths import Paths
from volmgr.model.objects import ServiceAccount
from volmgr.model.pod import Pod
from volmgr.model.tokens import Token, TokenIssuer, claims_of, held_token, life_claims, life_of

if TYPE_CHECKING:
    from volmgr.host.signing import SigningKey

KEY = "key.pem"
KEY_SET = "jwks.json"
_PRIVATE, _PUBLIC, _DIRECTORY = 0o600, 0o644, 0o700
_OTHERS = 0o077


class LocalTokens:
    """Issues tokens as `settings` say; any number of threads may ask at once. `wall` is Unix time in seconds."""

    def __init__(
        self,
        settings: TokenIssuer,
        files: Files,
        paths: Paths,
        *,
        node_name: str = "",
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._files = files
        self._directory = paths.state / "tokens"
        self._node_name = node_name
        self._wall = wall
        self._lock = threading.Lock()
        self._known: tuple[bytes, SigningKey] | None = None

    def prepare(self) -> None:
        """Make what is missing of the key and the key set, so that others can be given it; raises as `issue` does."""
        paths = (self._directory / KEY, self._directory / KEY_SET)
        if any(self._files.info(path) is None for path in paths):
            self._key()

    def issue(
        self,
        pod: Pod,
        *,
        audience: str,
        expiration_seconds: int,
        account: ServiceAccount | None = None,
        held: str = "",
    ) -> Token:
        """Give a token, or `held` back while it says the same and is not due.

        Raises SpecError for a life or an account's name that may not be, OperationError when the key cannot be made or
        read, PluginError when what signs is not installed.
        """
        life = life_of(expiration_seconds, self._settings)
        key = self._key()
        claims = claims_of(pod, self._settings, audience=audience, account=account, node_name=self._node_name)
        now = self._wall()
        said = key.claims_of(held) if held else None
        kept = held_token(held, said, claims, life) if said is not None else None
        if kept is not None and kept.issued_at <= now < kept.due_at:
            return kept
        span = life_claims(now, life)
        return Token(value=key.sign({**claims, **span}), issued_at=int(now), expires_at=int(now) + life)

    def _key(self) -> SigningKey:
        with self._lock:
            pem = self._files.read(self._directory / KEY)
            if pem is None:
                pem = self._made()
            if self._known is None or self._known[0] != pem:
                self._known = (pem, self._read(pem))
            self._keep_private()
            key = self._known[1]
            self._publish(key)
            return key

    def _made(self) -> bytes:
        with extra_needed("signing tokens (token_issuer)", "tokens"):
            from volmgr.host.signing import new_key
        pem = new_key(self._settings.algorithm)
        self._files.ensure_directory(self._directory, _DIRECTORY)
        self._files.write(self._directory / KEY, pem, _PRIVATE, durable=True)
        return pem

    def _read(self, pem: bytes) -> SigningKey:
        path = self._directory / KEY
        with extra_needed("signing tokens (token_issuer)", "tokens"):
            from volmgr.host.signing import SigningKey
        try:
            return SigningKey.read(pem)
        except ValueError as error:
            message = (
                f"cannot sign tokens with {path}: {error};"
                " put a good copy back, or move it away: then a new key is made"
            )
            raise OperationError(message) from None

    def _keep_private(self) -> None:
        """Let nobody else read a key that was put back."""
        info = self._files.info(self._directory / KEY)
        if info is not None and info.mode & _OTHERS:
            self._files.chmod(self._directory / KEY, _PRIVATE)

    def _publish(self, key: SigningKey) -> None:
        """Let the key set have this key; those that it has stay: tokens that they signed may still be in use."""
        path = self._directory / KEY_SET
        keys = _keys(self._files.read(path))
        if all(each.get("kid") != key.kid for each in keys):
            text = msgspec.json.format(msgspec.json.encode({"keys": [key.public, *keys]}))
            self._files.write(path, text + b"\n", _PUBLIC, durable=True)


def _keys(text: bytes | None) -> list[dict[str, object]]:
    """Read a key set; one that is damaged has no keys: it can be made anew from the private key."""
    try:
        found = msgspec.json.decode(text or b"{}", type=dict[str, list[dict[str, object]]])
    except (msgspec.DecodeError, RecursionError):
        return []
    return found.get("keys", [])
