"""volmgrd as a process of the guest, on a root directory of its own, with what it leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.eventually import PATIENCE, eventually
from tests.root.acceptance.outside import Outside, Process, mounts_below, pod
from tests.vm.servers.forked import forking
from volmgr.cli.client import Client, Refused, quote

QUICK: Mapping[str, Any] = {"removal_settle": "50ms", "backoff_initial": "50ms", "backoff_max": "1s"}
"""Options of a daemon that tries again at once."""


class VmNode(Outside):
    """A real daemon: `with VmNode(top, plugins={"kubernetes.io/nfs": {…}}, **QUICK) as node:` starts it.

    It leads a session and a process group of its own, as a service of systemd does. From `Outside`: `put`, `volmgr`,
    `json`, `kill` (-9), `stop`, `start`, `until_why`, `mounts`, `log_text`.
    """

    def __init__(self, top: Path, *options: str, plugins: Mapping[str, Any] | None = None, **config: Any) -> None:  # noqa: ANN401 - YAML
        """`plugins` are settings of packages by type name, `config` are options of the daemon; nothing runs yet."""
        self.configuration = top / "volmgr.json"
        self.configuration.write_text(json.dumps({"plugins": dict(plugins or {}), **QUICK, **config}))
        super().__init__(top, "--config", str(self.configuration), *options)

    def launch(self, environment: Mapping[str, str]) -> Process:
        """Fork the daemon off a process that has imported it: else each start would take ten seconds here."""
        return forking().start("volmgr.daemon:main", self.argv(*self.options), self.log, environment=environment)

    def run(self, command: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `volmgr` likewise."""
        return forking().run("volmgr.cli:main", command, text=text)

    def put_pod(self, name: str, *volumes: Mapping[str, Any], **spec: Any) -> Path:  # noqa: ANN401 - YAML
        """Let a Pod `name` (UID `uid-name`) want these volumes, in a manifest of its own."""
        return self.put(f"{name}.json", pod(name, *volumes, **spec))

    def mounted_pod(self, name: str, *volumes: Mapping[str, Any], **spec: Any) -> None:  # noqa: ANN401 - YAML
        """As `put_pod`, and wait until it is mounted."""
        self.put_pod(name, *volumes, **spec)
        self.wait(name)

    def remove_pod(self, name: str) -> None:
        """Delete the manifest of a Pod, and wait until nothing of it is left."""
        (self.manifests / f"{name}.json").unlink()
        self.wait(name, "unmounted")

    def restart(self) -> None:
        """Kill the daemon as kill -9 does, and start it again."""
        self.kill()
        self.start()

    def wait(self, name: str, state: str = "mounted") -> None:
        """Wait for a Pod as the command does, without the seconds that it takes to start here."""
        with closing(Client(str(self.socket))) as client:
            client.wait(name, state, PATIENCE)

    def why(self, name: str) -> str:
        """Give what `volmgr why` says of a Pod, likewise."""
        with closing(Client(str(self.socket))) as client:
            try:
                pods = json.loads(client.get(f"/v1/pods/{quote(name)}/why"))["pods"]
            except Refused as unknown:
                return str(unknown)
        return "\n".join(each["text"] for each in pods)

    def device(self, name: str, plugin: str, volume: str = "v") -> Path:
        """Give the link to a Block volume of a Pod; `plugin` is such as `kubernetes.io~iscsi`."""
        return self.root / "pods" / f"uid-{name}" / "volumeDevices" / plugin / volume

    def left(self) -> list[str]:
        """Name each file, and each empty directory of a Pod or of a volume, that is left below `pods` and `plugins`.

        Empty directories of types (`plugins/kubernetes.io/iscsi/iface-default`) stay, as kubelet keeps them.
        """
        found: list[str] = []
        for place, directories, files in os.walk(self.root / "pods"):
            found += [os.path.join(place, name) for name in (*directories, *files)]
        for place, _, files in os.walk(self.root / "plugins"):
            found += [os.path.join(place, name) for name in files]
        return sorted(found)

    def is_clean(self) -> bool:
        """Tell whether nothing is mounted or mapped, and nothing is left of any Pod."""
        return not self.mounts() and not self.left() and not self.loops()

    def until_clean(self) -> None:
        """Return when nothing is left."""
        eventually(
            self.is_clean,
            lambda: f"nothing, but {self.left()} {list(self.mounts())} {self.loops()}: {self.log_text()}",
        )

    def loops(self) -> dict[str, str]:
        """Give the loop devices that lock Block volumes of this node, with what backs each."""
        backings = Path("/sys/block").glob("loop*/loop/backing_file")
        found = {path.parts[3]: path.read_text().strip() for path in backings}
        return {loop: backing for loop, backing in found.items() if backing.startswith(f"{self.root}/")}

    def clear(self) -> None:
        """Take away what a test that failed left mounted or mapped."""
        if self.daemon is not None and self.daemon.poll() is None:
            self.kill()
        for path in sorted(mounts_below(self.top), reverse=True):
            subprocess.run(["umount", "--lazy", path], check=False)
        for loop in self.loops():
            subprocess.run(["losetup", "--detach", f"/dev/{loop}"], check=False)
