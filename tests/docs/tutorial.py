"""The project that docs/plugins/tutorial.md shows, as files."""

from pathlib import Path

from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs/plugins/tutorial.md"


def answer_to(command: str) -> str:
    """Give what the page shows as the answer to a command."""
    text = "".join(block.text for block in blocks(PAGE) if block.language == "console")
    return text.partition(f"$ {command}\n")[2].partition("$ ")[0]


def write_project(top: Path) -> None:
    """Write the package `volmgr-note` and the manifest `reader.yaml`."""
    for block in blocks(PAGE):
        if "/" in block.title:
            path = top / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        elif block.title == "note":
            (top / "reader.yaml").write_text(block.text)
