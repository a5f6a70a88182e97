"""The command group: names and first lines of sub-commands; their modules, and packages, are imported when used."""

from __future__ import annotations

import importlib

import click

from volmgr.cli.client import Dropped, Refused, Unreachable
from volmgr.cli.failures import Failure, NoAnswer
from volmgr.cli.session import Session, group_options

COMMANDS = {
    "status": "Show all Pods, or one with its volumes.",
    "why": "Say what is wrong with a Pod's volumes.",
    "wait": "Wait until a Pod's volumes are mounted, or gone.",
    "apply": "Send Pods to the daemon.",
    "delete": "Delete a Pod that was applied, or the volume of a claim that is gone.",
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
    "orphans": "Show what is there without a Pod or a claim, and why it was kept.",
    "doctor": "Look for what is wrong with this node.",
}
"""Each sub-command and the first line of its help, so that `--help` imports none of them."""


class LazyGroup(click.Group):
    """A group that imports a sub-command when it is used, and turns the client's errors into exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the names: of the table in its order, then of packages."""
        del ctx
        from volmgr.cli.packages import brought

        return [*COMMANDS, *(name for name in brought() if name not in COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one sub-command; packages replace none of the table."""
        del ctx
        if cmd_name in COMMANDS:
            command: click.Command = importlib.import_module(f"volmgr.cli.{cmd_name}").command
            return command
        from volmgr.cli import packages

        claims = packages.brought().get(cmd_name)
        return packages.command(*claims) if claims else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a sub-command; a misspelt one is told which it resembles, a missing one which package brings it."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            self._refuse_unknown(ctx, args[0])
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the sub-commands from the table, and those of packages."""
        del ctx
        from volmgr.cli.packages import brought

        others = [(name, claims[0].summary) for name, claims in brought().items() if name not in COMMANDS]
        with formatter.section("Commands"):
            formatter.write_dl([*COMMANDS.items(), *others])

    def invoke(self, ctx: click.Context) -> object:
        """Run a sub-command."""
        try:
            result: object = super().invoke(ctx)
        except Refused as error:
            raise Failure(str(error)) from None
        except Unreachable as error:
            raise NoAnswer(str(error)) from None
        except Dropped as error:
            message = f"the daemon ended before it had answered ({error}); see its log"
            raise NoAnswer(message) from None
        return result

    def _refuse_unknown(self, ctx: click.Context, name: str) -> None:
        from volmgr.cli.packages import missing

        known = self.list_commands(ctx)
        if name in known:
            return
        if hint := missing(name):
            ctx.fail(hint)
        from difflib import get_close_matches

        near = get_close_matches(name, known, n=1)
        ctx.fail(f"No such command {name!r}." + (f" Did you mean {near[0]!r}?" if near else ""))


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
