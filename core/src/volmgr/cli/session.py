"""What all sub-commands share: the options `--socket` and `-o`, taken before and after the sub-command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import click

from volmgr import SOCKET
from volmgr.cli.client import Client

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True)
class Session:
    """One run of the command line."""

    socket: str = SOCKET
    output: str = "text"
    _client: Client | None = field(default=None, repr=False)

    @property
    def client(self) -> Client:
        """The connection to the daemon."""
        if self._client is None:
            self._client = Client(self.socket)
        return self._client

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()

    @property
    def json(self) -> bool:
        """Say whether JSON is wanted."""
        return self.output == "json"


def common_options(function: F) -> F:
    """Add `--socket` and `-o` to a sub-command; what is said there wins."""
    return _options(function, None)


def group_options(function: F) -> F:
    """Add `--socket` and `-o` to the command itself."""
    return _options(function, "VOLMGR_SOCKET")


def _options(function: F, variable: str | None) -> F:
    socket = click.option(
        "--socket",
        metavar="PATH",
        envvar=variable,
        expose_value=False,
        is_eager=True,
        callback=partial(_remember, name="socket"),
        help=f"The daemon's socket.  [env var: VOLMGR_SOCKET; default: {SOCKET}]",
    )
    output = click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json"]),
        expose_value=False,
        is_eager=True,
        callback=partial(_remember, name="output"),
        help="How to print.  [default: text]",
    )
    return socket(output(function))


def _remember(ctx: click.Context, parameter: click.Parameter, value: str | None, *, name: str) -> None:
    del parameter
    if value is not None:
        setattr(ctx.ensure_object(Session), name, value)
