"""A real containerd with everything of its own, and an image of busybox that it did not have to pull."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess  # noqa: TID251 - a server of its own
import tarfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import dedent

from plugins.cri.tests.client import Client

from tests.eventually import PATIENCE, eventually
from volmgr.host import syscalls

IMAGE = "volmgr.test/busybox:1"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"


class Containerd:
    """It runs below `top`, beside others; shims have their sockets, by random names, below /run/containerd."""

    def __init__(self, top: Path) -> None:
        self.top = top
        top.mkdir()
        self.socket = top / "containerd.sock"
        self.endpoint = f"unix://{self.socket}"
        (top / "config.toml").write_text(_configuration(top))
        self.client = Client(self.endpoint)
        self.start()

    def close(self) -> None:
        """Remove every container, end it, and unmount what is left."""
        if self.process.poll() is not None:
            self.start()
        try:
            self.client.remove_all()
        finally:
            self.client.close()
            self.process.terminate()
            assert self.process.wait(PATIENCE) == 0, self.last_words()
            mounts = [line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
            for target in reversed([each for each in mounts if each.startswith(f"{self.top}/")]):
                syscalls.umount(target, syscalls.UMOUNT_DETACH)
            for directory in _hard_wired():
                with suppress(OSError):  # another one, of another process of the tests, still uses it
                    directory.rmdir()
            shutil.rmtree(self.top / "root")  # noqa: TID251 - of a server, not of a volume

    def start(self) -> None:
        """Start it; whoever asks it waits until it serves."""
        with (self.top / "log").open("a") as log:
            command = ["containerd", "--config", str(self.top / "config.toml")]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def last_words(self) -> str:
        """Give its log."""
        return (self.top / "log").read_text()

    def kill(self) -> None:
        """End it as kill -9 does; its containers run on."""
        self.process.kill()
        self.process.wait()

    def import_image(self) -> None:
        """Let it have IMAGE."""
        eventually(self.socket.exists, lambda: f"its socket; {self.last_words()}")
        archive = self.top / "image.tar"
        archive.write_bytes(image(Path(shutil.which("busybox") or "/bin/busybox").read_bytes()))
        command = ["ctr", "-a", str(self.socket), "-n", "k8s.io", "images", "import", str(archive)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        # Its CRI part hears of a new image by an event.
        eventually(lambda: self.client.has_image(IMAGE), lambda: f"its image; {self.last_words()}")


def _hard_wired() -> list[Path]:
    """Give the directories that are made whatever the configuration says, and left; inner ones first."""
    run = Path("/run/containerd")
    cgroups = Path("/sys/fs/cgroup")  # v2 or v1
    above = [*cgroups.glob("k8s.io"), *cgroups.glob("*/k8s.io")]
    return [run / "s", run / "runc/k8s.io", run / "runc", run, *above]


@contextmanager
def running(top: Path) -> Generator[Containerd]:
    """Run a containerd that has IMAGE."""
    containerd = Containerd(top)
    try:
        containerd.import_image()
        yield containerd
    finally:
        containerd.close()


def _configuration(top: Path) -> str:
    return dedent(f"""\
        version = 2
        root = "{top}/root"
        state = "{top}/state"
        disabled_plugins = ["io.containerd.internal.v1.opt"]
        [grpc]
          address = "{top}/containerd.sock"
        [plugins."io.containerd.grpc.v1.cri"]
          sandbox_image = "{IMAGE}"
          restrict_oom_score_adj = true
          disable_cgroup = true
          stream_server_address = "127.0.0.1"
          [plugins."io.containerd.grpc.v1.cri".containerd]
            snapshotter = "native"
          [plugins."io.containerd.grpc.v1.cri".cni]
            bin_dir = "{top}/cni/bin"
            conf_dir = "{top}/cni/conf"
        """)


def image(busybox: bytes) -> bytes:
    """Give an OCI archive with a static busybox that sleeps."""
    layer = _tar({"bin/busybox": busybox})
    diff = f"sha256:{hashlib.sha256(layer).hexdigest()}"
    config = json.dumps(
        {
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine),
            "os": "linux",
            "config": {"Entrypoint": ["/bin/busybox", "sleep", "86400"]},
            "rootfs": {"type": "layers", "diff_ids": [diff]},
        }
    ).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _descriptor(_CONFIG, config),
            "layers": [_descriptor(_LAYER, layer)],
        }
    ).encode()
    names = {"io.containerd.image.name": IMAGE, "org.opencontainers.image.ref.name": IMAGE}
    index = {"schemaVersion": 2, "manifests": [{**_descriptor(_MANIFEST, manifest), "annotations": names}]}
    blobs = {f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}": blob for blob in (layer, config, manifest)}
    return _tar({"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": json.dumps(index).encode(), **blobs})


def _descriptor(media_type: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": f"sha256:{hashlib.sha256(blob).hexdigest()}", "size": len(blob)}


def _tar(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()
