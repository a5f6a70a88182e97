"""The `volmgr` command: one file per sub-command, each imported only when it is used."""


def main() -> None:
    """Run the command line."""
    from volmgr.cli.app import cli

    cli(prog_name="volmgr")
