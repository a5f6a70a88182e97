"""`make e2e-vm`: storage servers and the kernel's own clients, each area of tests in a guest of its own.

python -m tests.vm                                     every area, one pass
python -m tests.vm --full nfs iscsi                    two areas, with the faults that take long
python -m tests.vm tests/vm/nfs/test_mounts.py::test_… one test
python -m tests.vm nfs --pytest="-x -k reads"          what else to tell pytest
python -m tests.vm --command "lsblk; uname -a"         a guest, and a command in it
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from tests.vm import timing
from tests.vm.areas import AREAS, HERE, Area
from tests.vm.lane import code, image, tools
from tests.vm.lane.machine import GuestError, Machine

ROOT = HERE.parent.parent
LIMITS = {False: 1200.0, True: 3600.0}
"""Seconds that the guest of one area may run, quick and full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How an area ended."""

    area: Area
    seconds: float
    processor: float = 0.0
    """Seconds of processors that the guest took."""
    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    """What its tests have measured, a line each."""
    problem: str = ""
    """Why it did not run to its end; empty: it did."""

    @property
    def good(self) -> bool:
        """Whether something ran, and everything passed."""
        return bool(self.passed) and not self.failed and not self.problem


_printing = threading.Lock()


def _say(line: str) -> None:
    with _printing:
        print(line, flush=True)


def _run(area: Area, tests: Iterable[str], arguments: argparse.Namespace, machine: Machine) -> Result:
    begun = time.monotonic()
    chosen = "" if arguments.full or arguments.exact or area.is_full else "-m 'not slow'"
    script = (
        f"cd {shlex.quote(str(ROOT))}\n"
        "exec .venv/bin/python -m tests.vm.inside -v --color=no --tb=short --junitxml=/vm/junit.xml"
        f" {chosen} {arguments.pytest} {shlex.join(tests)}\n"
    )
    problem, processor = "", 0.0
    with tempfile.TemporaryDirectory(prefix="volmgr-vm-") as directory:
        try:
            status, processor = machine.run(script, Path(directory), lambda line: _say(f"{area.name:8} | {line}"))
            if status not in {0, 1}:
                problem = f"pytest ended with exit code {status}"
        except GuestError as error:
            problem = str(error)
        passed, failed = _read(Path(directory) / "junit.xml")
        measured = Path(directory) / timing.RESULTS.name
        times = tuple(measured.read_text().splitlines()) if measured.exists() else ()
    seconds = time.monotonic() - begun
    return Result(
        area=area, seconds=seconds, processor=processor, passed=passed, failed=failed, times=times, problem=problem
    )


def _read(junit: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    passed: list[str] = []
    failed: list[str] = []
    if junit.exists():
        for case in ET.parse(junit).getroot().iter("testcase"):
            sentence = case.get("name", "").removeprefix("test_").replace("_", " ")
            # A skip proves nothing: here it is a failure.
            (failed if any(child.tag in {"failure", "error", "skipped"} for child in case) else passed).append(sentence)
    return tuple(passed), tuple(failed)


def _report(results: Iterable[Result]) -> str:
    lines: list[str] = []
    for result in results:
        lines += ["", f"{result.area.name}: {'proved' if result.good else 'FAILED'}, {result.seconds:.0f} s"]
        lines += [f"  + {sentence}" for sentence in result.passed]
        lines += [f"  FAILED: {sentence}" for sentence in result.failed]
        lines += [f"  time: {line}" for line in result.times]
        lines += [f"  {line}" for line in result.problem.splitlines()]
        lines += [f"  - not proved: {sentence}" for sentence in result.area.not_proved]
    lines += ["", f"{'area':10}{'passed':>8}{'failed':>8}{'seconds':>9}{'processor':>11}"]
    for result in results:
        mark = "" if result.good else "  FAILED"
        counts = f"{len(result.passed):8}{len(result.failed):8}"
        lines.append(f"{result.area.name:10}{counts}{result.seconds:9.0f}{result.processor:11.0f}{mark}")
    return "\n".join(lines)


def _chosen(words: Iterable[str], *, full: bool) -> Mapping[Area, tuple[str, ...]]:
    """Give the areas that are meant, and what pytest is told to run in each."""
    by_name = {area.name: area for area in AREAS}
    found: dict[Area, list[str]] = {}
    for word in words or [area.name for area in AREAS if full or not area.is_full]:
        if word in by_name:
            found.setdefault(by_name[word], []).append(str(by_name[word].directory.relative_to(ROOT)))
            continue
        parts = Path(os.path.relpath(word, ROOT)).parts
        if parts[:2] != ("tests", "vm") or parts[2] not in by_name:
            raise SystemExit(f"tests/vm: {word} is neither an area ({', '.join(by_name)}) nor a test of one")
        found.setdefault(by_name[parts[2]], []).append(str(Path(*parts)))
    return {area: tuple(tests) for area, tests in found.items()}


def main() -> int:
    """Run what is asked for; gives the exit code."""
    parser = argparse.ArgumentParser(
        "python -m tests.vm", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", help=f"areas ({', '.join(area.name for area in AREAS)}) or tests")
    parser.add_argument("--full", action="store_true", help="also the faults that take long")
    parser.add_argument("--jobs", type=int, default=2, help="guests at once (%(default)s)")
    parser.add_argument("--pytest", default="", help="more options of pytest, in one word")
    parser.add_argument("--command", help="run this in a guest instead, with the clone at its own path")
    parser.add_argument("--kernel", default="", help="more arguments of the kernel, with --command")
    arguments = parser.parse_args()
    arguments.exact = any("::" in word for word in arguments.what)
    tools.install()
    is_command = arguments.command is not None
    chosen: Mapping[Area, tuple[str, ...]] = {} if is_command else _chosen(arguments.what, full=arguments.full)
    built = {area.name: area.built() for area in chosen}
    limit = LIMITS[arguments.full or is_command or any(area.is_full for area in chosen)]
    guest = image.built()
    with tempfile.TemporaryDirectory(prefix="volmgr-vm-", dir=image.cache()) as directory:
        plain = Machine(image=guest, clone=ROOT, code=code.packed(ROOT, Path(directory)), limit=limit)
        if is_command:
            return _run_command(arguments.command, replace(plain, kernel=tuple(arguments.kernel.split())))
        begun = time.monotonic()
        with ThreadPoolExecutor(arguments.jobs) as pool:
            running = [
                pool.submit(
                    _run,
                    area,
                    tests,
                    arguments,
                    replace(plain, shared=built[area.name], memory=area.memory, kernel=area.kernel),
                )
                for area, tests in chosen.items()
            ]
            results = [each.result() for each in running]
    print(_report(results))
    bad = [result.area.name for result in results if not result.good]
    total = f"{time.monotonic() - begun:.0f} s"
    print(f"tests/vm: {'not proved: ' + ', '.join(bad) if bad else 'all proved'}, in {total}")
    return 1 if bad else 0


def _run_command(command: str, machine: Machine) -> int:
    with tempfile.TemporaryDirectory(prefix="volmgr-vm-") as results:
        try:
            return machine.run(f"cd {shlex.quote(str(ROOT))}\n{command}\n", Path(results), _say).status
        except GuestError as error:
            print(error, file=sys.stderr)
            return 1


if __name__ == "__main__":
    sys.exit(main())
