"""Somebody who begins a volume type with the template, outside this tree, and publishes wheels of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.side_venv import wheel

BODY = Path(__file__).parent / "overlay"
BEGIN = ("--name", "overlay", "--field", "overlay", "--type", "example.com/overlay", "--defaults")


class Author:
    """Somebody who has a package in a folder of theirs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        command: list[str | Path] = [sys.executable, "-m", "volmgr.cli", "plugins", "new", folder, *BEGIN]
        subprocess.run(command, check=True, capture_output=True, cwd=folder.parent)

    def take_over(self, name: str, more: str = "") -> None:
        """Write a module of the type."""
        place = self.folder / "src/overlay_volume" / name
        shutil.copy(BODY / name, place)
        place.write_text(place.read_text() + more)

    def edit(self, old: str, new: str) -> None:
        """Change the package's settings, which must hold what is changed."""
        settings = self.folder / "pyproject.toml"
        text = settings.read_text()
        assert old in text
        settings.write_text(text.replace(old, new))

    def build(self, version: str) -> Path:
        """Give a wheel of what is written so far."""
        return wheel(self.folder, self.folder / "dist" / version)
