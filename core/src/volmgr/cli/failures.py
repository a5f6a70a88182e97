"""How a command ends that could not do what it was asked: a message on stderr, and an exit code."""

from __future__ import annotations

import click


class Failure(click.ClickException):
    """Ends the command with 1, and a message on stderr."""

    def show(self, file: object = None) -> None:
        """Print the message."""
        del file
        click.echo(f"volmgr: {self.format_message()}", err=True)


class NoAnswer(Failure):
    """Ends the command with 3: nobody answers on the socket."""

    exit_code = 3
