"""What a run of the contract suite found, in a file that a third party can publish (`--volmgr-report FILE`)."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any, cast

import pytest

from volmgr.plugin import API_VERSION, VolumePlugin
from volmgr.testing.contract.abilities import MARK, Ability, can
from volmgr.testing.contract.subject import Subject, find_plugin

KEPT = "kept"
BROKEN = "broken"
NOT_PROMISED = "not promised by volumes that"
_PROPERTY = "volmgr"


@dataclass(frozen=True)
class Promise:
    """One promise: its sentence, the bug that it prevents, and its result for each sample.

    A result is `kept`, `broken: …`, or `not promised by volumes that …`.
    """

    promise: str
    prevents: str
    results: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True)
class Report:
    """The whole result; `complete` unless promises were left out (`-k`), `kept` when none was broken."""

    type: str
    package: str
    host: str
    volmgr: str
    api_version: int
    python: str
    kernel: str
    complete: bool
    kept: bool
    samples: tuple[str, ...]
    promises: tuple[Promise, ...]

    def to_json(self) -> str:
        """Give it for programs."""
        return json.dumps(asdict(self), indent=2) + "\n"

    def to_markdown(self) -> str:
        """Give it for people."""
        verdict = ("keeps" if self.complete else "keeps a part of") if self.kept else "breaks"
        number = {sample: str(index) for index, sample in enumerate(self.samples, 1)}
        facts = (
            ("package", self.package),
            ("host", f"{self.host}, Linux {self.kernel}, Python {self.python}"),
            ("volmgr", f"{self.volmgr}, plugin API {self.api_version}"),
            ("promises", "all" if self.complete else "only those of this table: the others were left out"),
            *((f"sample {number[sample]}", f"`{sample}`") for sample in self.samples),
        )
        rows = [
            (promise.promise, *(_short(promise.results.get(sample, "not run")) for sample in self.samples))
            for promise in self.promises
        ]
        return "\n".join(
            (
                f"# {self.type} {verdict} the contract of volmgr's volume types\n",
                *_table(("", ""), facts),
                "",
                *_table(("promise", *(f"sample {number[sample]}" for sample in self.samples)), rows),
                "",
                "n/a: not promised by such volumes. What each promise prevents: docs/plugins/contract.md of volmgr.",
                "",
            )
        )


class ReportFile:
    """A pytest plugin that gathers results, also those of other processes, and writes them at the end."""

    def __init__(self, path: Path, config: pytest.Config) -> None:
        self._path = path
        self._config = config
        self._found: list[Mapping[str, str]] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Let each report of a promise say what it is about."""
        report = yield
        if (
            isinstance(item, pytest.Function)
            and "sample" in item.fixturenames
            and (report.when == "call" or report.failed)
        ):
            report.user_properties.append((_PROPERTY, _result(item, report)))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Gather the result of one test."""
        self._found += [cast("Mapping[str, str]", what) for name, what in report.user_properties if name == _PROPERTY]

    def pytest_sessionfinish(self) -> None:
        """Write the file; in the process that leads, if there are several."""
        if hasattr(self._config, "workerinput") or not self._found:
            return
        plugin = find_plugin(str(self._config.getoption("--volmgr-plugin")))
        report = report_of(plugin, str(self._config.getoption("--volmgr-host")), self._found)
        self._path.write_text(report.to_json() if self._path.suffix == ".json" else report.to_markdown())


def report_of(plugin: type[VolumePlugin[Any]], host: str, found: Iterable[Mapping[str, str]]) -> Report:
    """Make the report of what was found: mappings with `promise`, `prevents`, `sample` and `result`."""
    from volmgr.testing.contract.promises import promises as all_promises

    known = [_sentence(name) for name in all_promises()]
    promises: dict[str, Promise] = {}
    for one in sorted(found, key=lambda one: (known.index(one["promise"]), int(one["index"]))):
        promise = promises.setdefault(one["promise"], Promise(one["promise"], one["prevents"]))
        if not promise.results.get(one["sample"], "").startswith(BROKEN):  # one test of several may break it
            promise.results[one["sample"]] = one["result"]
    samples = tuple(dict.fromkeys(sample for promise in promises.values() for sample in promise.results))
    results = [result for promise in promises.values() for result in promise.results.values()]
    return Report(
        type=plugin.name,
        package=_package_of(plugin),
        host=host,
        volmgr=version("volmgr"),
        api_version=API_VERSION,
        python=platform.python_version(),
        kernel=platform.release(),
        complete=known == list(promises),
        kept=not any(result.startswith(BROKEN) for result in results),
        samples=samples,
        promises=tuple(promises.values()),
    )


def _result(item: pytest.Function, report: pytest.TestReport) -> dict[str, str]:
    subject = item.funcargs.get("subject")
    marker = item.get_closest_marker(MARK)
    result = KEPT
    if report.failed:
        lines = [line for line in report.longreprtext.splitlines() if line.startswith("E ")] or [report.longreprtext]
        result = f"{BROKEN}: {lines[0].removeprefix('E').strip()}"
    elif isinstance(subject, Subject) and marker is not None and not can(subject.volume, marker.args[0]):
        result = f"{NOT_PROMISED} {cast('Ability', marker.args[0])}"
    return {
        "promise": _sentence(item.originalname),
        "prevents": (cast("Callable[..., object]", item.obj).__doc__ or "").removeprefix("Prevents: "),
        "sample": _sample_of(item),
        "index": str(cast("tuple[str, int]", item.callspec.params["sample"])[1]),
        "result": result,
    }


def _sample_of(item: pytest.Function) -> str:
    """Give the sample's part of a test's id, which ends with the side of a call that is killed for some."""
    name = item.callspec.id
    for value in item.callspec.params.values():
        name = name.removesuffix(f"-{value}").removeprefix(f"{value}-")
    return name


def _short(result: str) -> str:
    return "n/a" if result.startswith(NOT_PROMISED) else result


def _sentence(test: str) -> str:
    return test.removeprefix("test_").replace("_", " ")


def _package_of(plugin: type[VolumePlugin[Any]]) -> str:
    module = plugin.__module__.partition(".")[0]
    for point in entry_points(group="volmgr.plugins"):
        if point.module.partition(".")[0] == module and point.dist is not None:
            return f"{point.dist.name} {point.dist.version}"
    return f"{plugin.__module__}, not installed"


def _table(heading: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    lines = [tuple(heading), *(tuple(row) for row in rows)]
    drawn = [f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines]
    return [drawn[0], "|" + "---|" * len(lines[0]), *drawn[1:]]
