"""Give every distribution one version: `python scripts/set_version.py 0.2.0`, then `make lock venv`."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc|\.dev)\d+)?")
# The version of a project, and the core that exactly fits a volume type.
PLACES = (
    re.compile(r'^(version = ")[^"]*(")$', re.MULTILINE),
    re.compile(r'("volmgr(?:\[\w+\])?==)[^"]*(")'),
)


def with_version(pyproject: str, version: str) -> str:
    """Return the text of a pyproject.toml with this version in each of its places."""
    for place in PLACES:
        pyproject = place.sub(rf"\g<1>{version}\g<2>", pyproject)
    return pyproject


def main(arguments: list[str]) -> int:
    """Rewrite the pyproject files in place."""
    if len(arguments) != 1 or not VERSION.fullmatch(arguments[0]):
        print("usage: set_version.py MAJOR.MINOR.PATCH[aN|bN|rcN|.devN]", file=sys.stderr)
        return 2
    for path in (
        ROOT / "pyproject.toml",
        ROOT / "core/pyproject.toml",
        *ROOT.glob("plugins/*/pyproject.toml"),
    ):
        path.write_text(with_version(path.read_text(), arguments[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
