"""The issuer of service account tokens over any host's files, for tests."""

from __future__ import annotations

from collections.abc import Callable

from volmgr.host.interface import Host
from volmgr.host.tokens import LocalTokens
from volmgr.model.tokens import TokenIssuer

ISSUER = "https://issuer.example"
SETTINGS = TokenIssuer(issuer=ISSUER)


def issuer_of(host: Host, wall: Callable[[], float] | None = None, settings: TokenIssuer = SETTINGS) -> LocalTokens:
    """Give an issuer whose key lies below the host's root; `wall` is Unix time, by default the host's clock."""
    return LocalTokens(settings, host.files, host.paths, wall=wall or host.clock)
