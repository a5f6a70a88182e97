"""Make, or with --check verify, a uv.lock that names no registry host (docs/decisions/0001).

`uv lock` writes the address of the index and of each file. They are replaced by reserved names that resolve
nowhere, and put back, in a temporary copy of the workspace, for uv to reuse the pins or to check them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from pip._internal.models.index import PyPI

ROOT = Path(__file__).resolve().parent.parent
PLACEHOLDERS = {
    urlsplit(PyPI.simple_url).netloc: "index.invalid",
    PyPI.file_storage_domain: "files.invalid",
}


def without_hosts(lock: str) -> str:
    """Replace each registry host by its placeholder; refuse a lock that names another one."""
    for host, placeholder in PLACEHOLDERS.items():
        lock = lock.replace(f"https://{host}/", f"https://{placeholder}/")
    named = {urlsplit(word.strip('"')).netloc for word in lock.split() if "://" in word}
    if others := named - set(PLACEHOLDERS.values()):
        sys.exit(f"lock: uv.lock names {', '.join(sorted(others))}; lock against the default index")
    return lock


def with_hosts(lock: str) -> str:
    """Put the registry hosts back."""
    for host, placeholder in PLACEHOLDERS.items():
        lock = lock.replace(f"https://{placeholder}/", f"https://{host}/")
    return lock


def copy_of_workspace(into: Path) -> Path:
    """Copy what `uv lock` reads, the lock with its hosts in place, and return the copy's uv.lock."""
    for pyproject in (
        ROOT / "pyproject.toml",
        ROOT / "core/pyproject.toml",
        *ROOT.glob("plugins/*/pyproject.toml"),
    ):
        copy = into / pyproject.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(pyproject, copy)
    lock = into / "uv.lock"
    if (ROOT / "uv.lock").exists():
        lock.write_text(with_hosts((ROOT / "uv.lock").read_text()))
    return lock


def main(arguments: list[str]) -> int:
    """Run `uv lock` with the arguments, on a copy; keep its result unless it was only a check."""
    with tempfile.TemporaryDirectory() as scratch:
        lock = copy_of_workspace(Path(scratch))
        command = [sys.executable, "-m", "uv", "lock", "--quiet", "--no-config", "--python", sys.executable]
        locked = subprocess.run([*command, *arguments], cwd=scratch, check=False)
        if locked.returncode:
            print("lock: uv.lock does not fit the pyproject files: run `make lock`", file=sys.stderr)
            return locked.returncode
        if "--check" not in arguments:
            (ROOT / "uv.lock").write_text(without_hosts(lock.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
