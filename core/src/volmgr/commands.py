"""What a command of a package may import beside `volmgr.plugin`: how all commands print, fail and read times."""

from __future__ import annotations

from volmgr.cli.failures import Failure, NoAnswer
from volmgr.cli.output import print_json, print_table, print_value
from volmgr.cli.session import Session, common_options
from volmgr.cli.timeouts import TIMEOUT
from volmgr.host.local import local_host

__all__ = [
    "TIMEOUT",
    "Failure",
    "NoAnswer",
    "Session",
    "common_options",
    "local_host",
    "print_json",
    "print_table",
    "print_value",
]
