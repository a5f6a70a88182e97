"""The guest's kernel and disk: built once for what this directory says, outside of the clone."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

_HERE = Path(__file__).parent
_PARTS = ("build.sh", "container.cil", "initrd.sh", "packages.txt", "vmlinux.py")
_UNUSED = 14 * 86400
"""Seconds after which an image that nobody uses goes."""


def cache() -> Path:
    """Give the directory of all images."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "volmgr/vm"


def key() -> str:
    """Name the image by all that it is made from."""
    digest = hashlib.sha256()
    for part in _PARTS:
        content = (_HERE / part).read_bytes()
        digest.update(f"{part} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def built() -> Path:
    """Give the directory of the image, built where it is not there; whoever asks meanwhile waits for it."""
    top = cache()
    top.mkdir(parents=True, exist_ok=True)
    image = top / key()
    with (top / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not image.exists():
            _build(image)
        os.utime(image)
        _forget_unused(top)
    return image


def _build(image: Path) -> None:
    for draft in image.parent.glob("draft-*"):  # of a build that was killed: nobody else has the lock
        shutil.rmtree(draft)
    print(f"tests/vm: building the guest in {image}, which takes some minutes once", flush=True)
    subprocess.run(["apt-get", "update", "-qq"], check=True)
    draft = Path(tempfile.mkdtemp(prefix="draft-", dir=image.parent))
    draft.chmod(0o755)  # apt downloads as a user of its own
    try:
        subprocess.run(["nice", _HERE / "build.sh", draft], check=True)
        draft.rename(image)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _forget_unused(top: Path) -> None:
    for place in top.iterdir():  # images, and disks of runs that were killed
        if place.is_dir() and place.stat().st_mtime < time.time() - _UNUSED:
            shutil.rmtree(place)
