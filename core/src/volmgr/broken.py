"""Packages that cannot be used: why, with a traceback that begins in them. What fails in one concerns no other."""

from __future__ import annotations

import importlib
import os
import traceback
from dataclasses import dataclass
from itertools import dropwhile
from typing import TYPE_CHECKING

import pluggy
import stevedore

from volmgr import hookspecs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from volmgr.volume_type import Origin

_LOADING = (
    *(f"{os.path.dirname(str(each.__file__))}/" for each in (hookspecs, stevedore, importlib, pluggy)),
    "<frozen importlib",
)
"""Where the code lies that loads packages: what a filename in a traceback begins with."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A package that could not be used, with the reason and its traceback."""

    origin: Origin
    problem: str
    traceback: str = ""


def broken_by(origin: Origin, error: BaseException) -> Broken:
    """Say what an error of a package makes of it."""
    return Broken(origin, f"{type(error).__name__}: {error}", _from_its_own_frames(error))


def isolated(broken: list[Broken], origin: Origin, step: Callable[[], object]) -> None:
    """Take a step that runs code of a package; whatever it raises makes the package one of the broken."""
    try:
        step()
    except BaseException as error:  # noqa: BLE001 - a foreign package may raise anything
        broken.append(broken_by(origin, error))


def _from_its_own_frames(error: BaseException) -> str:
    """Give a traceback that begins in the package: how it came to be loaded is the same for all of them."""
    found = traceback.TracebackException.from_exception(error)
    for each in _chain(found):
        own = dropwhile(lambda frame: frame.filename.startswith(_LOADING), each.stack)
        each.stack = traceback.StackSummary.from_list(list(own))
    return "".join(found.format())


def _chain(found: traceback.TracebackException | None) -> Iterator[traceback.TracebackException]:
    if found is not None:
        yield found
        yield from _chain(found.__cause__)
        yield from _chain(found.__context__)
