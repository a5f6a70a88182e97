"""What of the contract suite must be known before it is found: its options, its marker, and the backend of none."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that say what is tested, and on what."""
    group = parser.getgroup("volmgr", "contract suite of volmgr volume types")
    group.addoption("--volmgr-plugin", metavar="KEY", help="entry point, qualified name or module:Class of a type")
    group.addoption("--volmgr-host", choices=("fake", "real"), default="fake", help="in memory, or this machine")
    group.addoption("--volmgr-report", metavar="FILE", help="write the result down: JSON for *.json, else Markdown")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker of promises, and gather results if they are to be written down."""
    config.addinivalue_line("markers", "volmgr_needs(ability): a promise about volumes with an ability alone")
    file = config.getoption("--volmgr-report")
    if file:
        from volmgr.testing.contract.report import ReportFile

        config.pluginmanager.register(ReportFile(Path(file).absolute(), config))


@pytest.fixture(scope="session")
def volmgr_backend() -> object:
    """Give what a type needs to run beside it: nothing. The module `contract` of a package may define its own."""
    return None
