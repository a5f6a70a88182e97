"""Programs of this machine that build and run the guest."""

from __future__ import annotations

import os
import shutil
import subprocess

_PACKAGE_OF = {
    "cpio": "cpio",
    "dpkg": "dpkg",
    "flock": "util-linux",
    "mke2fs": "e2fsprogs",
    "mmdebstrap": "mmdebstrap",
    "qemu-system-x86_64": "qemu-system-x86",
    "zstd": "zstd",
}


def install() -> None:
    """Install what is missing, by apt; a machine without it is told what to install."""
    path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
    missing = sorted({package for tool, package in _PACKAGE_OF.items() if not shutil.which(tool, path=path)})
    if not missing:
        return
    if not shutil.which("apt-get") or os.geteuid():
        raise SystemExit(f"tests/vm: install {', '.join(missing)} (names of Debian's packages) first, as root")
    print(f"tests/vm: installing {' '.join(missing)}", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in ("update -qq", f"install -y -qq --no-install-recommends {' '.join(missing)}"):
        subprocess.run(["apt-get", *words.split()], env=environment, stdout=subprocess.DEVNULL, check=True)
