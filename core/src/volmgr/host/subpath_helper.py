"""The executed helper that binds a subPath of a volume for which a server answers: a thread may wait for it for ever.

It is told on its input what to bind, since a subPath may hold what is secret; and says on its output, in lines of JSON,
that it begins, and what came of it. It ends with who asked.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import TypedDict

from volmgr.errors import OperationError, SpecError, UncertainError, VolmgrError

REFUSED = 3
"""The exit code of a bind that failed and said why."""
_PARENT_ENDS = 1  # PR_SET_PDEATHSIG, see prctl(2)
_KINDS: dict[str, type[VolmgrError]] = {kind.__name__: kind for kind in (OperationError, SpecError, UncertainError)}


class Order(TypedDict):
    """What is to be bound, as `Subpaths.bind` is asked; `root` is the root directory."""

    root: str
    volume: str
    sub_path: str
    target: str
    create: bool


def command() -> tuple[str, ...]:
    """Give what to execute: not without site packages, of which the nouns of a volume need some."""
    here = __file__.removesuffix("/volmgr/host/subpath_helper.py")
    code = f"import sys; sys.path.append({here!r}); from volmgr.host import subpath_helper; subpath_helper.main()"
    return (sys.executable, "-I", "-c", code)


def failure(said: str) -> VolmgrError:
    """Give the error that a helper has told of."""
    answer = answer_of(said)
    return _KINDS[str(answer["kind"])](str(answer["message"]))


def main() -> None:
    """Bind; ends the process."""
    ctypes.CDLL(None).prctl(_PARENT_ENDS, signal.SIGKILL)
    order: Order = json.load(sys.stdin)
    try:
        _say({"bound": _bound(order)})
    except VolmgrError as error:
        kind = next(name for name, kind in _KINDS.items() if isinstance(error, kind))
        _say({"kind": kind, "message": str(error)})
        sys.exit(REFUSED)


def answer_of(said: str) -> dict[str, object]:
    """Give what came of it: the last line."""
    answer: dict[str, object] = json.loads(said.splitlines()[-1])
    return answer


def _bound(order: Order) -> bool:
    from volmgr.host.commands import LocalCommands
    from volmgr.host.files import LocalFiles
    from volmgr.host.mounts import KernelMounts
    from volmgr.host.paths import Paths
    from volmgr.host.subpaths import LocalSubpaths

    paths = Paths(Path(order["root"]))
    subpaths = LocalSubpaths(paths, LocalFiles(paths), KernelMounts(LocalCommands()))
    _say({"begins": True})
    return subpaths.bind_here(Path(order["volume"]), order["sub_path"], Path(order["target"]), create=order["create"])


def _say(word: dict[str, object]) -> None:
    os.write(1, json.dumps(word).encode() + b"\n")
