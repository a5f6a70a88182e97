"""kubelet's own volume manager, timed on the same machine in the same run (the Go program in `kubelet/`)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_SOURCE = Path(__file__).parent / "kubelet"
_MEDIAN = re.compile(r"^\s+(?P<name>\S.*?)\s+n=\d+\s.*\bmed=\s*(?P<median>[0-9.]+)", re.MULTILINE)
_RESIDENT = re.compile(r"VmRSS=(\d+) kB")
_BUSY = re.compile(r"CPU s/s min=\S+ med=([0-9.]+)")
_RUNS = {
    "latency": ("latency", "-n", "25", "-only", "a"),
    "burst": ("burst", "-kind", "mix", "-n", "500", "-rounds", "3"),
    "idle": ("idle", "-kind", "mix", "-n", "500", "-rounds", "1", "-secs", "10"),
    "start": ("start",),
}
"""What is asked of the program; the volumes of `mix` are a tmpfs, a configMap and a hostPath."""


def program() -> Path | None:
    """Build the program, unless it is built, outside the clone; None where there is no Go. Cold it takes minutes."""
    if shutil.which("go") is None:
        return None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "volmgr" / "kubelet"
    done = subprocess.run([str(_SOURCE / "build.sh"), str(cache)], check=False)
    return cache / "kubelet-anchor" if done.returncode == 0 else None


def measured(top: Path) -> Mapping[str, str]:
    """Give kubelet's numbers as texts for the table, by the name of our measure; empty where it cannot be built."""
    built = program()
    if built is None:
        return {}
    found: dict[str, str] = {}
    for name, arguments in _RUNS.items():
        print(f"  kubelet: {name} …", file=sys.stderr, flush=True)
        root = top / f"kubelet-{name}"
        root.mkdir()
        command = [str(built), *arguments, "-root", str(root), "-log", str(top / "kubelet.log")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found |= _read(name, done.stdout)
    return found


def _read(name: str, text: str) -> dict[str, str]:
    medians = {match["name"]: float(match["median"]) for match in _MEDIAN.finditer(text)}
    found: dict[str, str] = {}
    for label, ours in (
        ("add -> WaitForAttachAndMount returns", "POST of a Pod → wait returns"),
        ("add -> in /proc/self/mountinfo", "file renamed into place → in the mount table"),
        ("terminate -> WaitForUnmount returns", "DELETE → gone"),
        ("terminate -> gone from mountinfo", "file removed → gone, less removal_settle"),
    ):
        if label in medians:
            found[ours] = f"{medians[label]:.0f} ms"
    if name == "burst" and "all WaitForAttachAndMount returned" in medians:
        found["500 Pods of 3 volumes by POST"] = f"{medians['all WaitForAttachAndMount returned'] / 1000:.2f} s"
    resident = _RESIDENT.findall(text)
    if resident and name in {"burst", "start"}:
        ours = "memory with 500 Pods" if name == "burst" else "memory when idle"
        found[ours] = f"{int(resident[-1]) / 1024:.0f} MB"
    if name == "idle" and (busy := _BUSY.search(text)):
        found["wake-ups in 10 s idle with 500 Pods"] = f"{float(busy[1]) * 100:.1f} % of a core"
    return found
