"""Service account tokens that an API server issues, by TokenRequest; asked on worker threads.

Behaviour: kubelet's token manager (`pkg/kubelet/token` of 1.37). What is new: a refresh that fails is tried again after
a bounded pause, also while the token that there is has not ended, and a token in the volume is taken over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

import msgspec

from volmgr.errors import OperationError, TransientError, VolmgrError
from volmgr.kube.errors import ApiError
from volmgr.kube.pace import longer
from volmgr.kube.resources import SERVICE_ACCOUNTS
from volmgr.kube.token_wish import TokenWish
from volmgr.model.tokens import Token
from volmgr.report.times import rfc3339

if TYPE_CHECKING:
    from volmgr.kube.api import Api
    from volmgr.model.kube import KubeSettings
    from volmgr.model.objects import ServiceAccount
    from volmgr.model.pod import Pod

_REMEDY = "; tokens are kept over a restart only with kubernetes.checkpoint_secrets: true"

log = logging.getLogger("volmgr.kube")


class KeptTokens(Protocol):
    """Where tokens are kept over a restart (`checkpoint_secrets`); asked on worker threads."""

    def get(self, pod_uid: str, key: str) -> bytes | None:
        """Give what was kept for a Pod under a key, which is any text and no secret."""
        ...

    def put(self, pod_uid: str, key: str, token: bytes, expires_at: float) -> None:
        """Keep a token until it ends (Unix time in seconds); raises OperationError when that fails."""
        ...

    def forget(self, pod_uid: str) -> None:
        """Remove all of a Pod's."""
        ...


class NothingKept:
    """Keeps no tokens: after a restart they are asked for anew."""

    def get(self, pod_uid: str, key: str) -> bytes | None:
        """Give nothing."""
        del pod_uid, key
        return None

    def put(self, pod_uid: str, key: str, token: bytes, expires_at: float) -> None:
        """Drop it."""
        del pod_uid, key, token, expires_at

    def forget(self, pod_uid: str) -> None:
        """There is nothing."""
        del pod_uid


class _Spec(msgspec.Struct, rename="camel"):
    expiration_seconds: int


class _Status(msgspec.Struct, rename="camel"):
    token: str
    expiration_timestamp: datetime


class _Answer(msgspec.Struct):
    spec: _Spec
    status: _Status


class KubeTokens:
    """Asks for tokens, and keeps those that it got; any number of threads may ask at once. `wall` is Unix time."""

    def __init__(
        self,
        api: Api,
        settings: KubeSettings,
        *,
        kept: KeptTokens | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._settings = settings
        self._kept: KeptTokens = kept or NothingKept()
        self._wall = wall
        self._lock = threading.Lock()
        self._tokens: dict[TokenWish, Token] = {}
        self._pauses: dict[TokenWish, float] = {}

    def issue(
        self,
        pod: Pod,
        *,
        audience: str,
        expiration_seconds: int,
        account: ServiceAccount | None = None,
        held: str = "",
    ) -> Token:
        """Give a token that has not ended, as `host.interface.Tokens` says.

        Where it is due and the server gives no other, it comes with when it is to be asked for again. Raises SpecError
        for a life that no server gives, TransientError when what it takes may come (the server, the account),
        OperationError when the server refuses.
        """
        wish = TokenWish.of(pod, audience, expiration_seconds, account)
        now = self._wall()
        known = self._known(wish, held, now)
        if known is not None and now < known.due_at:
            return known
        try:
            token = self._request(wish)
        except ApiError as error:
            return self._instead(wish, known, error)
        with self._lock:
            self._tokens[wish] = token
            self._pauses.pop(wish, None)
        self._keep(wish, token)
        return token

    def forget(self, pod_uid: str) -> None:
        """Drop what a Pod has that is gone; raises OperationError when what is kept of it cannot be removed."""
        with self._lock:
            self._tokens = {wish: token for wish, token in self._tokens.items() if wish.pod_uid != pod_uid}
            self._pauses = {wish: pause for wish, pause in self._pauses.items() if wish.pod_uid != pod_uid}
        self._kept.forget(pod_uid)

    def _known(self, wish: TokenWish, held: str, now: float) -> Token | None:
        """Give the newest token that there is and has not ended."""
        with self._lock:
            self._tokens = {each: token for each, token in self._tokens.items() if token.expires_at > now}
            found = [self._tokens.get(wish), wish.token_of(held) if held else None]
            if found == [None, None]:
                found.append(wish.token_of((self._kept.get(wish.pod_uid, wish.key) or b"").decode("ascii", "replace")))
            known = max(
                (token for token in found if token is not None and token.expires_at > now),
                key=lambda token: token.expires_at,
                default=None,
            )
            if known is not None and known != self._tokens.get(wish):
                self._tokens[wish] = known
                if self._kept.get(wish.pod_uid, wish.key) != known.value.encode():
                    self._keep(wish, known)  # it was in the volume before tokens were to be kept
            return known

    def _request(self, wish: TokenWish) -> Token:
        path = SERVICE_ACCOUNTS.path(wish.namespace, wish.account, "token")
        raw = self._api.create(path, wish.request())
        try:
            answer = msgspec.json.decode(raw, type=_Answer)
        except msgspec.DecodeError as error:
            problem = f"{self._api.address} answered with no TokenRequest: {error}"
            raise ApiError(problem, status=HTTPStatus.BAD_GATEWAY) from None
        expires = answer.status.expiration_timestamp.timestamp()
        return Token(value=answer.status.token, issued_at=expires - answer.spec.expiration_seconds, expires_at=expires)

    def _instead(self, wish: TokenWish, known: Token | None, error: ApiError) -> Token:
        """Give the token that there is, to be replaced soon; raise when there is none."""
        if known is None:
            raise _explained(wish, error, "" if self._settings.checkpoint_secrets else _REMEDY) from error
        now = self._wall()
        with self._lock:
            before = self._pauses.get(wish, 0.0)
            pause = self._pauses[wish] = longer(before, self._settings.await_initial, self._settings.backoff_max)
            again = replace(known, again_at=min(now + pause, known.expires_at))
            self._tokens[wish] = again
        if not before:  # an outage is long, and tokens are many
            log.warning("%s is due and stays until %s: %s", wish.words, rfc3339(known.expires_at), error)
        return again

    def _keep(self, wish: TokenWish, token: Token) -> None:
        try:
            self._kept.put(wish.pod_uid, wish.key, token.value.encode(), token.expires_at)
        except OperationError as error:  # the Pod has its token all the same
            log.warning("%s cannot be kept over a restart: %s", wish.words, error)


def _explained(wish: TokenWish, error: ApiError, remedy: str) -> VolmgrError:
    """Say who must act: the server must come back, somebody must make the account, or grant the right."""
    if error.is_unreachable:
        return TransientError(f"{wish.words} waits for the API server: {error}{remedy}", waits_for="the API server")
    if error.is_missing:
        needed = f"ServiceAccount {wish.namespace}/{wish.account}"
        return TransientError(f"{wish.words} needs {needed}, and the Pod on the server: {error}", waits_for=needed)
    return OperationError(f"{wish.words}: {error}")
