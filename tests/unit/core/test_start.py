"""What a daemon does with a signal that comes before it is ready."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.eventually import PATIENCE
from tests.unit.core.packages import site


def test_sigterm_while_a_package_is_loaded_ends_the_daemon_and_breaks_no_package(tmp_path: Path) -> None:
    packages, root = tmp_path / "packages", tmp_path / "root"
    packages.mkdir()
    with site(packages) as installed:
        installed.install("slow", "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n")
        daemon = "from volmgr.daemon import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", daemon, "--root-dir", root, "--socket", root / "socket"],
            env={**os.environ, "PYTHONPATH": str(packages)},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "ready" not in done.stderr
