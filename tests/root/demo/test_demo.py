"""The demo holds what it says, and leaves the machine as it was."""

import os
import subprocess
import sys
from pathlib import Path

DEMO = str(Path(__file__).resolve().parents[2] / "demo" / "demo.py")


def test_each_step_of_the_demo_holds_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    here = {**os.environ, "TMPDIR": str(tmp_path)}

    done = subprocess.run([sys.executable, DEMO], env=here, capture_output=True, text=True, timeout=100, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Each step was checked" in done.stdout
    assert list(tmp_path.iterdir()) == []
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


def test_without_root_the_demo_says_what_it_needs() -> None:
    nobody = ["unshare", "--user"]  # who may still read what root may: the interpreter may lie in root's home

    done = subprocess.run([*nobody, sys.executable, DEMO], capture_output=True, text=True, timeout=30, check=False)

    assert done.returncode == 1
    assert "run it as root" in done.stderr
