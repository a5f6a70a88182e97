"""The issuer of service account tokens over any host's files, for tests."""

from __future__ import annotations

from collections.abc import Callable

from volmgr.host.interface import Host
from volmgr.host.tokens import LocalTokens
from volmgr.model.tokens import TokenIssuer

ISSUER = "https://issuer.example"


def issuer_of(host: Host, wall: Callable[[], float] | None = None, **settings: float | str) -> LocalTokens:
    """Give an issuer whose key lies below the host's root; `wall` is Unix time, by default the host's clock.

    `settings` are fields of TokenIssuer; the issuer is `https://issuer.example` by default.
    """
    options = TokenIssuer(**{"issuer": ISSUER, **settings})  # type: ignore[arg-type] # the fields' own types
    return LocalTokens(options, host.files, host.paths, wall=wall or host.clock)
