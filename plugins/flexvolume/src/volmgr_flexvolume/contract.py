"""What the contract suite tries flexVolume with: a driver of a few lines, whose volumes are tmpfs."""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache, partial
from pathlib import Path

from volmgr.plugin import FLEX_FIELD, CommandResult, FlexVolumeSource, Handles, Host
from volmgr.testing import FakeHost, Sample
from volmgr_flexvolume.driver import Driver
from volmgr_flexvolume.protocol import Capabilities
from volmgr_flexvolume.volume import FlexVolume, MeasuredFlexVolume

NAME = "example.com/scratch"

_SCRIPT = """#!/bin/sh
case "$1" in
init) echo '{"status": "Success", "capabilities": {"attach": false, "supportsMetrics": true}}' ;;
mount) mount -t tmpfs -o size=64k,mode=0755 scratch "$2" && echo '{"status": "Success"}' ;;
*) echo '{"status": "Not supported"}' ;;
esac
"""


@cache
def _executable() -> Path:
    top = tempfile.TemporaryDirectory()
    atexit.register(top.cleanup)
    path = Path(top.name, "scratch")
    path.write_text(_SCRIPT, encoding="utf-8")
    path.chmod(0o755)
    return path


class Scratch(MeasuredFlexVolume):
    """The driver, as its `init` describes it: it mounts, and leaves unmounting to us."""

    name = NAME
    handles = (Handles(FLEX_FIELD, driver=NAME, source=FlexVolumeSource),)

    def __init__(self) -> None:
        super().__init__(Driver(NAME, _executable()), Capabilities(attach=False, supports_metrics=True))


def types() -> Iterable[type[FlexVolume]]:
    """Give a driver, since the package itself brings none."""
    return (Scratch,)


def samples(_top: Path) -> Iterator[Sample]:
    """Give a volume without options, and one that has some."""
    yield Sample(source=FlexVolumeSource(driver=NAME), arrange=_arrange)
    yield Sample(source=FlexVolumeSource(driver=NAME, fs_type="tmpfs", options={"a": "b"}), arrange=_arrange)


def _arrange(host: Host) -> None:
    if isinstance(host, FakeHost):
        host.programs["scratch"] = partial(_scratch, host)


def _scratch(host: FakeHost, argv: tuple[str, ...], _stdin: bytes) -> CommandResult:
    if argv[1] != "mount":
        return CommandResult(0, '{"status": "Not supported"}', "")
    host.mounts.ensure_mounted(Path(argv[2]), "tmpfs", source="scratch", options=("size=64k", "mode=0755"))
    return CommandResult(0, '{"status": "Success"}', "")
