"""pytest in a guest, `python -m tests.vm.inside ARGUMENTS`: volmgr is imported once, for the tests and each daemon."""

from __future__ import annotations

import os
import sys

from tests.vm.servers import forked

_PLUGINS = ("pytest_timeout", "no:cacheprovider")
"""Of pytest's plugins only what is used: the others take half a minute to import here."""

if __name__ == "__main__":
    forked.begin()

    import pytest  # not before: the process that forks needs none of it

    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    options = [word for plugin in _PLUGINS for word in ("-p", plugin)]
    sys.exit(pytest.main([*options, "--confcutdir=tests/vm", *sys.argv[1:]]))
