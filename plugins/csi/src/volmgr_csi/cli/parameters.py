"""What people write on the command line, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from volmgr.plugin import Quantity
from volmgr_csi.cli.driver import socket_path

ACCESS_MODES = (
    "SINGLE_NODE_WRITER",
    "SINGLE_NODE_READER_ONLY",
    "MULTI_NODE_READER_ONLY",
    "MULTI_NODE_SINGLE_WRITER",
    "MULTI_NODE_MULTI_WRITER",
    "SINGLE_NODE_SINGLE_WRITER",
    "SINGLE_NODE_MULTI_WRITER",
)
"""CSI's, here so that no help imports protobuf."""


class Socket(click.ParamType[str]):
    """A driver's socket."""

    name = "socket"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Give its path."""
        try:
            return socket_path(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Size(click.ParamType[int]):
    """A size, such as 64Mi."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Give bytes."""
        if isinstance(value, int):
            return value
        try:
            size = Quantity.parse(str(value)).to_int()
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if size <= 0:
            self.fail(f"{value} is no size; write one such as 64Mi", param, ctx)
        return size


def pairs(ctx: click.Context, parameter: click.Parameter, given: Sequence[str]) -> Mapping[str, str]:
    """Read what was given as KEY=VALUE, again and again."""
    del ctx
    found: dict[str, str] = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{each!r} is not of the form KEY=VALUE", param=parameter)
        found[key] = value
    return found


def secrets(ctx: click.Context, parameter: click.Parameter, given: Sequence[str]) -> Mapping[str, str]:
    """Read what was given as KEY=@FILE: everybody sees the arguments of a process, so values are in files only."""
    del ctx
    found: dict[str, str] = {}
    for each in given:
        key, equals, source = each.partition("=")
        if not key or not equals or not source.startswith("@"):
            message = f"{key or each!r} is to be given as KEY=@FILE: everybody sees the arguments of a process"
            raise click.BadParameter(message, param=parameter)
        try:
            found[key] = Path(source[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise click.BadParameter(f"{source[1:]} cannot be read: {error}", param=parameter) from None
    return found
