"""The recipes are code that is right: each is imported, and mypy has nothing to say in strict mode."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT, blocks


def test_each_recipe_can_be_imported_and_is_typed(tmp_path: Path) -> None:
    pages = [ROOT / "docs/plugins" / name for name in ("recipes.md", "versioning.md")]
    codes = [block.text for page in pages for block in blocks(page) if block.language == "python"]
    assert len(codes) > 8
    for number, code in enumerate(codes):
        path = tmp_path / f"recipe_{number}.py"
        path.write_text(code)
        runpy.run_path(str(path))

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", ".cache", "."],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT / "typings")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
