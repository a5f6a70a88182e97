"""The reference of the plugin API is what the source says today, and leaves out nothing that an author can import."""

import re
import subprocess
import sys

from tests.docs.pages import ROOT
from volmgr import plugin

PAGE = ROOT / "docs/plugins/reference.md"
VALUES = {
    "API_VERSION",
    "CSI_FIELD",
    "DEFAULT_TYPE",
    "DEGRADED",
    "FLEX_FIELD",
    "MAP_WAIT",
    "Object",
    "Objects",
    "Payload",
    "ProvisionerRequest",
    "SCSI_DEADLINE",
    "hookimpl",
}
"""Neither classes nor functions; told where they are used."""


def test_it_is_what_the_source_says() -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts/plugin_reference.py", "--check"], check=False)

    assert done.returncode == 0, "run scripts/plugin_reference.py"


def test_it_tells_of_everything_that_is_offered() -> None:
    page = PAGE.read_text()
    told = set(re.findall(r"^### (\w+)$|^- `(\w+)\(", page, re.MULTILINE))

    assert {name for name in plugin.__all__ if name not in {part for pair in told for part in pair}} <= VALUES
