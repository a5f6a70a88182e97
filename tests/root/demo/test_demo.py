"""The demo holds what it says, and leaves the machine as it was."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

DEMOS = Path(__file__).resolve().parents[2] / "demo"


@pytest.mark.parametrize(("demo", "ending"), [("demo.py", "Each step was checked"), ("container.py", "a Pod without")])
def test_each_step_of_the_demo_holds_and_nothing_of_it_is_left(tmp_path: Path, demo: str, ending: str) -> None:
    here = {**os.environ, "TMPDIR": str(tmp_path)}

    done = subprocess.run(
        [sys.executable, str(DEMOS / demo)], env=here, capture_output=True, text=True, timeout=100, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert ending in done.stdout
    assert list(tmp_path.iterdir()) == []
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


@pytest.mark.parametrize("demo", ["demo.py", "container.py"])
def test_without_root_the_demo_says_what_it_needs(demo: str) -> None:
    nobody = ["unshare", "--user"]  # who may still read what root may: the interpreter may lie in root's home

    done = subprocess.run(
        [*nobody, sys.executable, str(DEMOS / demo)], capture_output=True, text=True, timeout=30, check=False
    )

    assert done.returncode == 1
    assert "run it as root" in done.stderr


def test_without_a_runtime_the_container_demo_says_what_to_install(tmp_path: Path) -> None:
    empty = {**os.environ, "PATH": str(tmp_path)}
    python = [sys.executable, str(DEMOS / "container.py")]

    done = subprocess.run(python, env=empty, capture_output=True, text=True, timeout=30, check=False)

    assert done.returncode == 1
    assert "install runc and busybox" in done.stderr
