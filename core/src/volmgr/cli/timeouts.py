"""Timeouts on the command line: `30`, `30s`, `2m`."""

from __future__ import annotations

import click


class Timeout(click.ParamType[float]):
    """Seconds."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read a duration."""
        from volmgr.model.duration import parse_duration

        if isinstance(value, float):
            return value
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


TIMEOUT = Timeout()
