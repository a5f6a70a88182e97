"""The command group: names and first lines of all sub-commands; their modules are imported when they are used."""

from __future__ import annotations

import importlib

import click

from volmgr.cli.client import Dropped, Refused, Unreachable
from volmgr.cli.session import Session, group_options

COMMANDS = {
    "status": "Show all Pods, or one with its volumes.",
    "why": "Say what is wrong with a Pod's volumes.",
    "wait": "Wait until a Pod's volumes are mounted, or gone.",
    "apply": "Send Pods to the daemon.",
    "delete": "Delete a Pod that was applied.",
    "mounts": "Prepare what a Pod's containers are given, and print it.",
    "hold": "Keep a Pod's volumes mounted while a process lives.",
    "drain": "Take every volume down.",
    "adopt": "Take over a root directory that somebody else filled.",
    "claims": "Show claims and PersistentVolumes, and which belongs to which.",
    "release": "Let another claim have a PersistentVolume whose claim is gone.",
    "events": "Show what happened.",
    "check": "Check manifests, without a daemon.",
    "plan": "Show what would be done now, and why.",
    "plugins": "Show the installed volume types; reload them; begin one.",
    "orphans": "Show what is on disk without a Pod, and why it was kept.",
    "doctor": "Look for what is wrong with this node.",
}
"""Each sub-command and the first line of its help, so that `--help` imports none of them."""


class Failure(click.ClickException):
    """Ends the command with 1, and a message on stderr."""

    def show(self, file: object = None) -> None:
        """Print the message."""
        del file
        click.echo(f"volmgr: {self.format_message()}", err=True)


class NoDaemon(Failure):
    """Ends the command with 3: no daemon answers."""

    exit_code = 3


class LazyGroup(click.Group):
    """A group that imports a sub-command when it is used, and turns the client's errors into exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the names, in the order of the table."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one sub-command."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"volmgr.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a sub-command; a misspelt one is told which it resembles."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            ctx.fail(f"No such command {args[0]!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the sub-commands from the table."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> object:
        """Run a sub-command."""
        try:
            result: object = super().invoke(ctx)
        except Refused as error:
            raise Failure(str(error)) from None
        except Unreachable as error:
            raise NoDaemon(str(error)) from None
        except Dropped as error:
            message = f"the daemon ended before it had answered ({error}); see its log"
            raise NoDaemon(message) from None
        return result


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="volmgr")
@group_options
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Look at and steer the volume manager of this node.

    POD is a name (namespace default), NAMESPACE/NAME, or a UID. Exit codes: 0 done, 1 failed or timed out, 2 wrong
    usage (and, for plan, work to do), 3 no daemon answers.
    """
    ctx.call_on_close(ctx.ensure_object(Session).close)
