"""A daemon in a virtual environment whose packages come and go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live_node import LiveNode
from tests.side_venv import SideVenv, write_package

NOTE = '''
from dataclasses import dataclass

from volmgr.plugin import Handles, Mounted, Unmounted, VolumePlugin


@dataclass(frozen=True)
class NoteSource:
    text: str = ""


class Note(VolumePlugin[NoteSource]):
    """A directory in memory with a file in it."""

    name = "example.com/note"
    handles = (Handles("note", source=NoteSource),)

    def mount(self, request, host):
        host.files.ensure_directory(request.target, 0o750)
        host.mounts.ensure_mounted(request.target, "tmpfs", source="tmpfs", options=("size=64k",))
        host.files.write(request.target / "note", request.spec.source.text.encode(), 0o644)
        return Mounted()

    def unmount(self, request, host):
        host.mounts.unmount_below(request.target)
        host.files.remove_directory(request.target)
        return Unmounted()
'''


class Workbench(LiveNode):
    """A daemon beside which packages are published."""

    def __init__(self, venv: SideVenv, top: Path) -> None:
        super().__init__(venv.python, top)
        self.venv = venv

    def publish(self, name: str, code: str, entry_point: str) -> None:
        """Install a package that somebody wrote."""
        self.venv.install(write_package(self.top / name, name, code, entry_point))

    def publish_note(self) -> None:
        """Install the package of the type `note`."""
        self.publish("volmgr-note", NOTE, 'note = "volmgr_note:Note"')


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Workbench]:
    with Workbench(SideVenv.make(tmp_path / "venv"), tmp_path) as node:
        yield node
