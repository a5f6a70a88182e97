#!/usr/bin/env python3
"""Write the config.json of an OCI bundle: a plain container, and in it what `volmgr mounts` says.

volmgr mounts POD --container NAME --format oci | oci_bundle.py [--user UID[:GID]] BUNDLE -- CMD [ARG...]

BUNDLE/rootfs is the root file system, which the container can only read. Needs nothing but Python.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, cast

NAMESPACES = ("pid", "mount", "ipc", "uts")
MASKED = ("/proc/kcore", "/proc/keys", "/proc/sysrq-trigger", "/sys/firmware")


def config(fragment: dict[str, Any], argv: list[str], uid: int, gid: int) -> dict[str, Any]:
    """Give a container that runs a command with no capabilities, and with the mounts and devices of a fragment."""
    linux = fragment["linux"]
    forbidden = {"allow": False, "access": "rwm"}
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": uid, "gid": gid, **fragment["process"]["user"]},
            "args": argv,
            "env": ["PATH=/bin"],
            "cwd": "/",
            "noNewPrivileges": True,
        },
        "root": {"path": "rootfs", "readonly": True},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
            *fragment["mounts"],
        ],
        "linux": {
            "namespaces": [{"type": each} for each in NAMESPACES],
            "devices": linux["devices"],
            "resources": {"devices": [forbidden, *linux["resources"]["devices"]]},
            "maskedPaths": list(MASKED),
        },
    }


def _fragment(parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Read the fragment; ends the program when there is none, as after a `volmgr mounts` that failed."""
    try:
        found = json.load(sys.stdin)
    except ValueError:
        found = {}
    if not isinstance(found, dict) or not found.keys() >= {"mounts", "process", "linux"}:
        parser.error("standard input is not what `volmgr mounts POD --container NAME --format oci` prints")
    return cast("dict[str, Any]", found)


def main() -> int:
    """Read the fragment and write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("bundle", type=Path, help="its directory")
    parser.add_argument("argv", nargs="+", metavar="CMD", help="what the container runs")
    parser.add_argument("--user", default="0", metavar="UID[:GID]", help="whom it runs as; default 0:0")
    wanted = parser.parse_args()
    uid, _, gid = wanted.user.partition(":")
    if not (wanted.bundle / "rootfs").is_dir():
        parser.error(f"{wanted.bundle}/rootfs is no directory; put the root file system of the container there first")
    made = config(_fragment(parser), wanted.argv, int(uid), int(gid or uid))
    (wanted.bundle / "config.json").write_text(json.dumps(made, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
