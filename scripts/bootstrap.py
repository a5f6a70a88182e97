"""Fill a virtual environment from uv.lock: every pinned package by hash, then the workspace's own, editable.

Run by a bare Python with pip; needs nothing else. Packages come from whatever index pip and uv are configured
for: uv.lock pins names, versions and hashes and names no host (docs/decisions/0001).
"""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run(*command: str | Path) -> None:
    """Run a command in the workspace; a failure ends the bootstrap."""
    print("+", *command, flush=True)
    # Trust whom pip trusts: uv brings certificates of its own, and not those of a proxy that this machine knows.
    trust = {"UV_SYSTEM_CERTS": "1"} if ssl.create_default_context().get_ca_certs() else {}
    subprocess.run(command, cwd=ROOT, check=True, stdin=subprocess.DEVNULL, env={**trust, **os.environ})


def pin_of(name: str) -> str:
    """Return the locked version of one package, with its hashes, as a line of a requirements file."""
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    package = next(p for p in lock["package"] if p["name"] == name)
    files = [*package["wheels"], *([package["sdist"]] if "sdist" in package else [])]
    return f"{name}=={package['version']} " + " ".join(f"--hash={file['hash']}" for file in files)


def is_apart(member: Path) -> bool:
    """Say whether a package is to be imported, but found by no daemon: it would act on each one."""
    project = tomllib.loads((member / "pyproject.toml").read_text())
    return bool(project.get("tool", {}).get("volmgr", {}).get("apart", False))


def fill(venv: Path) -> None:
    """Create the environment if it is missing and make its content what uv.lock says."""
    python, pins = venv / "bin/python", venv / "requirements.txt"
    if not python.exists():
        run(sys.executable, "-m", "venv", venv)
    if not (venv / "bin/uv").exists():
        pins.write_text(pin_of("uv") + "\n")
        run(python, "-m", "pip", "install", "--quiet", "--require-hashes", "--only-binary=uv", "-r", pins)
    uv = venv / "bin/uv"
    run(
        uv, "export", "--quiet", "--frozen", "--all-packages", "--all-extras", "--no-emit-workspace",
        "--no-header", "--no-annotate", "--python", python, "--output-file", pins,
    )  # fmt: skip
    # Compiled, whatever PYTHONDONTWRITEBYTECODE says: without .pyc files imports are three times slower.
    install = ("--quiet", "--compile-bytecode", "--python", python)
    run(uv, "pip", "sync", *install, "--require-hashes", pins)
    members = [ROOT / "core", *sorted(p.parent for p in ROOT.glob("plugins/*/pyproject.toml"))]
    apart = [member for member in members if is_apart(member)]
    editables = [part for member in members if member not in apart for part in ("--editable", member)]
    run(uv, "pip", "install", *install, "--no-deps", "--no-build-isolation", *editables)
    for packages in venv.glob("lib/python*/site-packages"):
        (packages / "volmgr-apart.pth").write_text("".join(f"{member / 'src'}\n" for member in apart))


if __name__ == "__main__":
    fill(Path(sys.argv[1]).absolute())
