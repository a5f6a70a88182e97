"""Registries of Debian's docker-registry on loopback, and images that skopeo puts there."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from volmgr_image.contract import Files

USER, PASSWORD = "robot", "open sesame"
_HASH = "$2b$05$abcdefghijklmnopqrstuupx2xBUC4954936wVIjyyPHmUBFu0wCW"  # bcrypt of the password
_LISTENING = re.compile(r"listening on (127\.0\.0\.1:\d+)")


@dataclass(frozen=True)
class LoopbackRegistry:
    """One that runs; `host` is its name in references."""

    host: str
    top: Path
    locked: bool

    def push(self, files: Files, name: str) -> str:
        """Put an image from the files of a layout there; gives its digest."""
        layout = self.top / "push"
        for path, content in files.items():
            place = layout / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content or b"")
        digest = self.top / "digest"
        credentials = ("--dest-creds", f"{USER}:{PASSWORD}") if self.locked else ()
        argv = ["skopeo", "--insecure-policy", "copy", "--quiet", "--all", "--dest-tls-verify=false", *credentials]
        argv += ["--digestfile", str(digest), f"oci:{layout}:v1", f"docker://{self.host}/{name}"]
        subprocess.run(argv, check=True, timeout=60)
        return digest.read_text().strip()


@contextmanager
def running(top: Path, *, locked: bool = False) -> Generator[LoopbackRegistry]:
    """Run a registry whose data lie below a directory; `locked`: only for the user above."""
    top.mkdir()
    htpasswd = top / "htpasswd"
    htpasswd.write_text(f"{USER}:{_HASH}\n")
    options: dict[str, object] = {
        "version": 0.1,
        "log": {"level": "info", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(top / "data")}},
        "http": {"addr": "127.0.0.1:0"},
    }
    if locked:
        options["auth"] = {"htpasswd": {"realm": "here", "path": str(htpasswd)}}
    (top / "config.yml").write_text(json.dumps(options))
    argv = ["docker-registry", "serve", str(top / "config.yml")]
    with (
        (top / "log").open("w") as log,
        subprocess.Popen(argv, stderr=subprocess.PIPE, stdout=log, text=True) as server,
    ):
        try:
            yield LoopbackRegistry(_address(server), top, locked)
        finally:
            server.kill()


def _address(server: subprocess.Popen[str]) -> str:
    assert server.stderr is not None
    said: list[str] = []
    for line in server.stderr:
        said.append(line)
        match = _LISTENING.search(line)
        if match:
            return match.group(1)
    raise AssertionError("".join(said))


def docker_config(host: str) -> Mapping[str, object]:
    """Give the content of a `.dockerconfigjson` for a registry."""
    return {"auths": {host: {"username": USER, "password": PASSWORD}}}
