"""`make bench`: the numbers of docs/performance.md, measured on this machine in a mount namespace of their own."""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tests.bench import burst, csi, directories, footprint, groups, kube, kubelet, latency, payloads, scale
from tests.bench.measures import Measure, table
from tests.bench.node import Node
from volmgr.host import syscalls
from volmgr.host.file_system_types import type_name

_OUTSIDE = "VOLMGR_BENCH_OUTSIDE"
"""The mount namespace of whoever ran the benchmark, so that the inner process knows that it is in another one."""

Part = Callable[[Path], Iterator[Measure]]


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser("python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small and few, in seconds: that it runs, not how fast")
    parser.add_argument(
        "--only", nargs="*", metavar="PART", help=f"of {', '.join(_parts(quick=True))}; kube, csi only so"
    )
    parser.add_argument("--disk", action=argparse.BooleanOptionalAction, help="the root directory on a disk, too")
    parser.add_argument("--kubelet", action=argparse.BooleanOptionalAction, help="kubelet's own volume manager, too")
    arguments = parser.parse_args()
    _enter_namespace()
    with suppress(PermissionError):
        os.nice(-10)  # others' work should not be what is measured
    with tempfile.TemporaryDirectory(prefix="volmgr-bench-", ignore_cleanup_errors=True) as directory:
        try:
            _run(arguments, Path(directory))
        finally:
            syscalls.umount(str(Path(directory) / "memory"), syscalls.UMOUNT_NOFOLLOW | syscalls.UMOUNT_DETACH)


def _enter_namespace() -> None:
    here = os.readlink("/proc/self/ns/mnt")
    if os.environ.get(_OUTSIDE, here) == here:
        os.environ[_OUTSIDE] = here
        again = [sys.executable, "-m", "tests.bench", *sys.argv[1:]]
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", *again])


def _parts(*, quick: bool) -> Mapping[str, Part]:
    if quick:
        return {
            "start": lambda top: footprint.start(top, 1),
            "latency": lambda top: latency.latency(top, 5),
            "burst": lambda top: burst.burst(top, 10, 1),
            "idle": lambda top: footprint.idle(top, 5, 0.5),
            "restart": lambda top: scale.restart(top, 20, 1),
            "scale": lambda top: scale.beside(top, 5, 30, 3),
            "payloads": lambda top: payloads.payloads(top, 5, 10, 2),
            "local": lambda top: directories.restart(top, 20, 1),
            "ownership": lambda top: groups.ownership(top, 3000, 1),
            "kube": lambda top: kube.kube(top, kube.QUICK),
            "csi": lambda top: csi.csi(top, csi.QUICK),
        }
    return {
        "start": lambda top: footprint.start(top, 10),
        "latency": lambda top: latency.latency(top, 200),
        "burst": lambda top: burst.burst(top, 500, 5),
        "idle": lambda top: footprint.idle(top, 500, 10),
        "restart": lambda top: scale.restart(top, 1000, 5),
        "scale": lambda top: scale.beside(top, 10, 10_000, 50),
        "payloads": lambda top: payloads.payloads(top, 100, 200, 10),
        "local": lambda top: directories.restart(top, 1000, 5),
        "ownership": lambda top: groups.ownership(top, 300_000, 3),
        "kube": lambda top: kube.kube(top, kube.FULL),
        "csi": lambda top: csi.csi(top, csi.FULL),
    }


_ON_REQUEST = frozenset({"kube", "csi"})
"""Parts that are measured only when --only names them: they need what `make e2e-kube` builds."""

_ON_DISK: Mapping[str, Part] = {
    "latency": lambda top: latency.latency(top, 40),
    "burst": lambda top: burst.burst(top, 500, 1),
    "payloads": lambda top: payloads.payloads(top, 40, 200, 3),
    "ownership": lambda top: groups.ownership(top, 300_000, 3),
}
"""On a disk each fsync takes milliseconds, for the floor as for us."""


def _run(arguments: argparse.Namespace, top: Path) -> None:
    quick: bool = arguments.quick
    memory, disk = top / "memory", top / "disk"
    for path in (memory, disk):
        path.mkdir()
    syscalls.mount("tmpfs", str(memory), "tmpfs", 0, "mode=0700")
    _prepare(memory)
    others: Mapping[str, str] = {}
    if arguments.kubelet or (arguments.kubelet is None and not quick and not arguments.only):
        others = kubelet.measured(memory)
        if not others:
            print("kubelet: not measured, since there is no Go to build its volume manager with")
    wanted: Collection[str] = arguments.only or _parts(quick=quick).keys() - _ON_REQUEST
    parts = {name: part for name, part in _parts(quick=quick).items() if name in wanted}
    _measure(memory, parts, others)
    if arguments.disk is not False:
        _measure(
            disk, {name: part if quick else _ON_DISK[name] for name, part in parts.items() if name in _ON_DISK}, {}
        )


def _prepare(top: Path) -> None:
    """Say where and when, and let the first start of a daemon write the byte code that later ones are to find."""
    node = Node(top / "prepare")
    node.start()
    node.stop()
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}", end="")
    print(f", Linux {platform.release()}, Python {platform.python_version()}, byte code: {_byte_code()}")


def _byte_code() -> str:
    """Say whether what the daemon imports is compiled: without byte code a start takes three times as long."""
    missing: list[str] = []
    for name in ("volmgr.daemon", "volmgr.reconciler", "marshmallow.schema", "stevedore.extension"):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.cached is None or not os.path.exists(spec.cached):
            missing.append(name)
    return "MISSING for " + ", ".join(missing) if missing else "there"


def _measure(top: Path, parts: Mapping[str, Part], others: Mapping[str, str]) -> None:
    kind = type_name(syscalls.statfs(str(top)).type)
    measures: list[Measure] = []
    for name, part in parts.items():
        print(f"  {name} on {kind} …", file=sys.stderr, flush=True)
        inner = top / name
        inner.mkdir()
        for measure in part(inner):
            measures.append(replace(measure, kubelet=others.get(measure.name, "")))
            print(f"    {measure.name}: {measure.median:.2f} {measure.unit}", file=sys.stderr, flush=True)
        subprocess.run(["rm", "-rf", "--one-file-system", str(inner)], check=False)
    print(f"\nRoot directory on {kind}\n\n{table(measures)}", flush=True)


if __name__ == "__main__":
    main()
