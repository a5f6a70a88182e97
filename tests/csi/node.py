"""A standalone node with CSI drivers, and what is left of them on it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from contextlib import closing
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tests.eventually import PATIENCE, eventually
from tests.root.acceptance.outside import Outside, mounts_below
from volmgr.cli.client import Client, Refused, quote
from volmgr_csi.settings import NAME

CSI = "kubernetes.io~csi"
SCAFFOLD = ("pods", "plugins", f"plugins/{CSI.replace('~', '/')}", f"plugins/{CSI.replace('~', '/')}/volumeDevices")

QUICK: Mapping[str, Any] = {
    "removal_settle": "50ms",
    "backoff_initial": "10ms",
    "backoff_max": "200ms",
    "health_interval": "100ms",
}
"""Options of a daemon that tries again at once, for tests in which much goes wrong."""

ASKED_OFTEN = {("claims",), ("orphans",), ("plugins",)}
"""Commands whose JSON is what the API answers."""


def registry(top: Path) -> Path:
    """Give where drivers register at a node below `top`; there before the node is, since drivers outlive it."""
    return top / "root/plugins_registry"


class CsiNode(Outside):
    """A real daemon, whose drivers register in its root directory."""

    def __init__(self, top: Path, *options: str, settings: Mapping[str, Any] | None = None, **config: Any) -> None:  # noqa: ANN401 - YAML
        """`settings` are those of the package, `config` are options of the daemon; nothing runs yet."""
        self.configuration = top / "volmgr.json"
        self.configuration.write_text(json.dumps({"plugins": {NAME: dict(settings or {})}, **config}))
        super().__init__(top, "--config", str(self.configuration), *options)
        registry(top).mkdir(parents=True, exist_ok=True)

    def wait(self, name: str, state: str = "mounted") -> None:
        """Wait for a Pod as the command does, without the time that it takes to start."""
        with closing(Client(str(self.socket))) as client:
            client.wait(name, state, PATIENCE)

    def why(self, name: str) -> str:
        """Give what `volmgr why` says of a Pod, likewise."""
        with closing(Client(str(self.socket))) as client:
            try:
                pods = json.loads(client.get(f"/v1/pods/{quote(name)}/why"))["pods"]
            except Refused as unknown:
                return str(unknown)
        return "\n".join(pod["text"] for pod in pods)

    def json(self, *arguments: str, code: int | None = 0) -> Any:  # noqa: ANN401 - JSON
        """Give what `volmgr -o json` prints; that of what is asked for again and again likewise."""
        if arguments in ASKED_OFTEN:
            status, body = self.http("GET", f"/v1/{arguments[0]}")
            assert status == HTTPStatus.OK, body
            return json.loads(body)
        return super().json(*arguments, code=code)

    def drivers(self) -> dict[str, Any]:
        """Give what is known of each registered driver."""
        return {each["name"]: each for each in self.json("plugins")["drivers"]}

    def until_registered(self, *names: str) -> None:
        """Return when these drivers, and no others, are registered."""
        eventually(
            lambda: set(self.drivers()) == set(names), lambda: f"{names}, not {self.drivers()}: {self.log_text()}"
        )

    def target(self, pod: str, volume: str) -> Path:
        """Give where a volume is published for a Pod; `volume` is the PersistentVolume's name, or an inline one's."""
        return self.volume(pod, volume, CSI) / "mount"

    def device(self, pod: str, volume: str) -> Path:
        """Give the link to a Block volume of a Pod."""
        return self.root / "pods" / f"uid-{pod}" / "volumeDevices" / CSI / volume

    def global_mounts(self) -> list[Path]:
        """Give where volumes are staged."""
        return sorted((self.root / "plugins/kubernetes.io/csi").glob("*/*/globalmount"))

    def vol_data(self) -> dict[str, Any]:
        """Give the content of each vol_data.json, by its path in the root directory."""
        found = (
            Path(place, name) for place, _, files in os.walk(self.root) for name in files if name == "vol_data.json"
        )
        return {str(path.relative_to(self.root)): json.loads(path.read_text()) for path in sorted(found)}

    def left(self) -> list[str]:
        """Name all below the Pods' and the types' directories but what stays when no volume is left."""
        found: list[str] = []
        for top in ("pods", "plugins"):
            for place, directories, files in os.walk(self.root / top):
                found += [os.path.join(place, name) for name in files]
                if not directories and not files:
                    found.append(place)
        scaffold = {str(self.root / each) for each in SCAFFOLD}
        return sorted(set(found) - scaffold)

    def is_clean(self) -> bool:
        """Tell whether nothing is mounted, and nothing is left of any Pod."""
        return not self.mounts() and not self.left()

    def until_clean(self) -> None:
        """Return when nothing is left."""
        eventually(self.is_clean, lambda: f"nothing, but {self.left()} {list(self.mounts())}: {self.log_text()}")


def clear(top: Path) -> None:
    """Take away what a test that failed left mounted, or attached, below a directory."""
    for path in sorted(mounts_below(top), reverse=True):
        subprocess.run(["umount", "--lazy", path], check=False)
    for loop in loops_below(top):
        subprocess.run(["losetup", "--detach", f"/dev/{loop}"], check=False)


def loops_below(top: Path) -> list[str]:
    """Name the loop devices whose files are below a directory."""
    backings = Path("/sys/block").glob("loop*/loop/backing_file")
    return sorted(path.parts[3] for path in backings if path.read_text().startswith(f"{top}/"))
