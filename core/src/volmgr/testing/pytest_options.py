"""The options of the contract suite; a pytest plugin, since those of a suite run by `--pyargs` must be known early."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that say what is tested, and on what."""
    group = parser.getgroup("volmgr", "contract suite of volmgr volume types")
    group.addoption("--volmgr-plugin", metavar="KEY", help="entry point, qualified name or module:Class of a type")
    group.addoption("--volmgr-host", choices=("fake", "real"), default="fake", help="in memory, or this machine")
