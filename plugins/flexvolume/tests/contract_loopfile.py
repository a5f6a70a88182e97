"""The driver `drivers/loopfile` as the contract suite takes it: `--volmgr-plugin contract_loopfile:LoopFile`.

It supports attaching alone: all else is what is done where a driver answers `Not supported`.
"""

from __future__ import annotations

import atexit
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

from volmgr.plugin import FLEX_FIELD, CommandResult, FlexVolumeSource, Handles, Host
from volmgr.testing import FakeHost, Sample
from volmgr_flexvolume.driver import Driver
from volmgr_flexvolume.protocol import Capabilities
from volmgr_flexvolume.volume import AttachableFlexVolume

NAME = "example.com/loopfile"
_SIZE = 2 << 20


@cache
def installed() -> Path:
    """Copy the driver to where it may write, and give the copy.

    It is started hundreds of times, and by this Python: what `env` finds may be a script that looks for one first.
    """
    top = tempfile.TemporaryDirectory()
    atexit.register(top.cleanup)
    copy = Path(shutil.copy(Path(__file__).parent / "drivers/loopfile", top.name))
    copy.write_text(copy.read_text().replace("#!/usr/bin/env python3", f"#!{sys.executable} -IS", 1))
    return copy


class LoopFile(AttachableFlexVolume):
    """A driver with attachments, as its `init` describes it."""

    name = NAME
    handles = (Handles(FLEX_FIELD, driver=NAME, source=FlexVolumeSource),)

    def __init__(self) -> None:
        super().__init__(Driver(NAME, installed()), Capabilities())


def samples(top: Path) -> Iterator[Sample]:
    """Give a disk below a directory that the suite owns."""
    source = FlexVolumeSource(driver=NAME, options={"file": f"{top}/disk.img"})
    yield Sample(source=source, arrange=partial(_arrange, top))


def _arrange(top: Path, host: Host) -> None:
    host.files.write(top / "disk.img", bytes(_SIZE))
    if isinstance(host, FakeHost):
        host.programs["loopfile"] = partial(_loopfile, host, {})


def _loopfile(host: FakeHost, notes: dict[str, Path], argv: tuple[str, ...], _stdin: bytes) -> CommandResult:
    command, first, *_ = argv[1:]
    device = ""
    if command == "attach":
        options: dict[str, str] = json.loads(first)
        file = notes[options["kubernetes.io/pvOrVolumeName"]] = Path(options["file"])
        device = str(host.block.attach_loop(file))
    elif command == "waitforattach":
        device = first
    elif command == "detach":
        for loop in host.block.find_loops(notes.pop(first)) if first in notes else ():
            host.block.detach_loop(loop)
    else:
        return CommandResult(1, '{"status": "Not supported"}', "")
    return CommandResult(0, json.dumps({"status": "Success", "device": device}), "")
