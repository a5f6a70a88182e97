"""gRPC without its asyncio half, 3 MB that nobody here uses, and with its own log left to who debugs it.

What it imports for that half is a module that becomes the real one when somebody uses it.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

_LATER = ("asyncio", "grpc.aio")


class _Later(ModuleType):
    """A module that is imported at the first use of one of its names, if there is any."""

    def __getattr__(self, name: str) -> object:
        _forget(self)
        return getattr(importlib.import_module(self.__name__), name)


def _forget(later: _Later) -> None:
    if sys.modules.get(later.__name__) is later:
        del sys.modules[later.__name__]


os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # read once, when it is imported
_later = [] if "grpc" in sys.modules else [_Later(name) for name in _LATER if name not in sys.modules]
sys.modules.update({each.__name__: each for each in _later})
try:
    import grpc
finally:
    for each in _later:
        _forget(each)

__all__ = ["grpc"]
