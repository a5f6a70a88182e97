"""Generate, or with --check verify, the Python modules of the vendored protos: each `*.proto` below a package's `src`.

The messages only: methods are called by their paths, so that nothing generated imports grpc.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def generate(source: Path, proto: Path, into: Path) -> dict[Path, str]:
    """Run protoc for one file; give what it wrote, by path below `source`."""
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{source}", f"--python_out={into}", f"--pyi_out={into}"]
    subprocess.run([*command, proto], check=True)
    written = [path for path in into.rglob("*_pb2.py*") if path.is_file()]
    return {path.relative_to(into): _typed(path.read_text()) for path in written}


def _typed(text: str) -> str:
    """Say what protoc leaves open, the fields of a message given as a mapping, and mend ClassVar in a module."""
    text = re.sub(r"^(\w+: )_ClassVar\[(.*)\]$", r"\1\2", text, flags=re.MULTILINE)
    return text.replace("_Mapping]", "_Mapping[str, object]]")


def main(arguments: list[str]) -> int:
    """Generate all; with --check say which are not what is generated."""
    stale: list[str] = []
    for proto in sorted(ROOT.glob("plugins/*/src/**/*.proto")):
        source = next(parent for parent in proto.parents if parent.name == "src")
        with tempfile.TemporaryDirectory() as scratch:
            made = generate(source, proto, Path(scratch))
        for path, text in made.items():
            target = source / path
            if target.exists() and target.read_text() == text:
                continue
            stale.append(str(target.relative_to(ROOT)))
            if "--check" not in arguments:
                target.write_text(text)
    if stale and "--check" in arguments:
        print(f"protos: {', '.join(stale)} are not what is generated; run make protos", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
