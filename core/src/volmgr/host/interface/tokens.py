"""Service account tokens."""

from __future__ import annotations

from typing import Protocol

from volmgr.errors import SpecError
from volmgr.model.objects import ServiceAccount
from volmgr.model.pod import Pod
from volmgr.model.tokens import Token


class Tokens(Protocol):
    """Who issues service account tokens: a key of our own, or an API server."""

    def issue(
        self,
        pod: Pod,
        *,
        audience: str,
        expiration_seconds: int,
        account: ServiceAccount | None = None,
        held: str = "",
    ) -> Token:
        """Give a token of the Pod's service account, bound to the Pod; an empty audience is the issuer's own.

        `account` is the ServiceAccount object, if there is one. `held` is the token that there is: it is given back
        while it says the same and is not due. Raises SpecError when nobody issues tokens here or the life is too
        short, OperationError when the issuer failed, PluginError when something is not installed.
        """
        ...


class NoTokens:
    """Issues nothing, and says what to configure."""

    def issue(
        self,
        pod: Pod,
        *,
        audience: str,
        expiration_seconds: int,
        account: ServiceAccount | None = None,
        held: str = "",
    ) -> Token:
        """Refuse."""
        del audience, expiration_seconds, account, held
        message = (
            f"pod {pod.key} asks for a service account token, and nobody issues any here;"
            " set token_issuer in the configuration, such as token_issuer: https://issuer.example, and restart volmgrd"
        )
        raise SpecError(message)
