"""The pages of this repository, as tests read them: fenced blocks, links, tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        *(ROOT / each for each in ("README.md", "CHANGELOG.md", "core/README.md", "plugin_template/README.md")),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("plugins/*/README.md"),
    ]
)

_FENCE = re.compile(r"^```(\w*)[ ]?(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_SPAN = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, the words after it, and its text."""

    page: Path
    language: str
    title: str
    text: str

    def __str__(self) -> str:
        return f"{name(self.page)}: {self.language} {self.title or self.text.splitlines()[0]}"


def name(page: Path) -> str:
    """Give a page's path in the repository."""
    return str(page.relative_to(ROOT))


def text_of(page: str) -> str:
    """Read one page."""
    return (ROOT / page).read_text()


def blocks(page: Path) -> list[Block]:
    """Give the fenced blocks of a page, in order."""
    return [Block(page, *found) for found in _FENCE.findall(page.read_text())]


def prose(page: Path) -> str:
    """Give a page without its fenced blocks."""
    return _FENCE.sub("", page.read_text())


def links(page: Path) -> list[str]:
    """Give the targets of a page's links."""
    return _LINK.findall(prose(page))


def spans(text: str) -> list[str]:
    """Give what is written as code within text."""
    return _SPAN.findall(text)


def first_cells(text: str) -> list[str]:
    """Give the first cell of each row of the tables in a text."""
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("|--")]
    return [row.split(" | ")[0].removeprefix("| ").strip() for row in rows]
