"""The promises of a volume type, by ability; each says which bug it prevents.

Each is a plain function of a Subject, so that the suite itself is tested with types that break it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from volmgr.testing.contract import (
    test_attach,
    test_block,
    test_device,
    test_expand,
    test_failures,
    test_files,
    test_measure,
    test_mount,
    test_others,
    test_reconstruct,
)

_BY_ABILITY = (
    test_mount,
    test_failures,
    test_others,
    test_files,
    test_measure,
    test_reconstruct,
    test_attach,
    test_device,
    test_block,
    test_expand,
)


def promises() -> Mapping[str, Callable[..., None]]:
    """Give each promise by its name, in the order in which they are told."""
    return {
        name.removeprefix("test_"): function
        for module in _BY_ABILITY
        for name, function in vars(module).items()
        if name.startswith("test_")
    }
