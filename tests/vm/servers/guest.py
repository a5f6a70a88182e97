"""What every server of the guest does: commands with a time limit, modules, the kernel's configuration tree."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.eventually import eventually

LIMIT = 120.0
"""Seconds that a command may take; the guest is emulated."""

CONFIGFS = Path("/sys/kernel/config")


def tell(*argv: str | Path, text: str = "", limit: float = LIMIT) -> str:
    """Run a command that must succeed, with `text` on its standard input, and give what it prints."""
    done = subprocess.run(
        [str(each) for each in argv], input=text, capture_output=True, text=True, timeout=limit, check=False
    )
    assert done.returncode == 0, f"{argv}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def load(*modules: str) -> None:
    """Load kernel modules."""
    tell("modprobe", "--all", *modules)


def mount_configfs() -> None:
    """Mount the kernel's configuration tree, where it is not."""
    load("configfs")
    if not os.path.ismount(CONFIGFS):
        tell("mount", "-t", "configfs", "configfs", CONFIGFS)


def put(file: Path, text: str) -> None:
    """Write a file of the kernel's; it takes one write, and its refusal names the file."""
    try:
        file.write_text(text)
    except OSError as error:
        error.add_note(f"writing {text!r} to {file}")
        raise


def settled() -> None:
    """Return when udev has worked off what the kernel has told it."""
    tell("udevadm", "settle", "--timeout=60")


def listening(port: int, host: str = "") -> bool:
    """Tell whether some process of the guest listens on a TCP port, on an address of its own or on this one."""
    rows = [line.split() for line in tell("ss", "--listening", "--tcp", "--numeric", "--no-header").splitlines()]
    return any(row[3].rpartition(":")[2] == str(port) and host in row[3] for row in rows)


def until_listening(port: int) -> None:
    """Return when some process of the guest listens on a TCP port."""
    eventually(lambda: listening(port), f"a server on port {port}")
