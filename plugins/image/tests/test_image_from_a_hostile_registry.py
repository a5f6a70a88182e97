"""Images from a registry that means harm: a server on loopback that says, and sends, what it should not."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from volmgr.plugin import OperationError, Quantity, VolmgrError
from volmgr.testing import Volume
from volmgr.testing.real_host import RealHosts
from volmgr_image.contract import Blobs, tar
from volmgr_image.plugin import Image
from volmgr_image.settings import ImageSettings
from volmgr_image.source import ImageSource

pytestmark = pytest.mark.root

MIB = 1 << 20
LIMIT = 8 * MIB
NOISE = random.Random(0).randbytes(MIB)
"""Not zeros: the client compresses what it stores, and the limit is on what is stored."""


class Registry(BaseHTTPRequestHandler):
    """Serves one image, badly."""

    harm = ""
    blobs: dict[str, bytes | None]
    manifest: bytes

    def do_GET(self) -> None:
        if self.harm == "always asks who it is":
            self.send_response(401)
            self.send_header("WWW-Authenticate", f'Bearer realm="http://{self.headers["Host"]}/token",service="s"')
            self.end_headers()
        elif "/manifests/" in self.path:
            self._manifest()
        elif "/blobs/" in self.path:
            self._blob(self.blobs[f"blobs/{self.path.rpartition('/')[2].replace(':', '/')}"] or b"")
        else:
            self._send(b"{}", "application/json")

    do_HEAD = do_GET  # noqa: N815 - the name that the base looks for

    def _manifest(self) -> None:
        body = self.manifest
        if self.harm == "endless manifest":
            body = b" " * (64 * MIB) + body
        self._send(body, "application/vnd.oci.image.manifest.v1+json")

    def _blob(self, body: bytes) -> None:
        if self.harm == "another blob":
            self._send(body + b"\0", "application/octet-stream")
        elif self.harm == "a file of the node":
            self.send_response(307)
            self.send_header("Location", "file:///etc/shadow")
            self.end_headers()
        elif self.harm == "round and round":
            self.send_response(307)
            self.send_header("Location", self.path)
            self.end_headers()
        elif self.harm == "endless blob":
            self.send_response(200)
            self.end_headers()
            for _ in range(1 << 16):  # 64 GiB
                self.wfile.write(NOISE)
        else:
            self._send(body, "application/octet-stream")

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def handle(self) -> None:
        try:
            super().handle()
        except ConnectionError:
            """The client has had enough."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that the base gives it
        """Say nothing."""


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[RealHosts]:
    with RealHosts(tmp_path / "hosts") as hosts:
        yield hosts


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    blobs = Blobs()
    blobs.image([tar({"file": b"1"})])
    Registry.blobs = blobs.files
    manifests = [data for data in blobs.files.values() if data is not None and data.startswith(b"{")]
    Registry.manifest = next(data for data in manifests if "layers" in json.loads(data))
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.timeout(90)
@pytest.mark.parametrize(
    ("harm", "match"),
    [
        ("", ""),
        ("always asks who it is", "cannot pull image"),
        ("endless manifest", "cannot pull image"),
        ("another blob", "cannot pull image"),
        ("a file of the node", "cannot pull image"),
        ("round and round", "cannot pull image"),
        ("endless blob", f"sends more than {LIMIT} bytes of one blob; raise unpacked_limit to allow more"),
    ],
)
def test_a_registry_that_means_harm_is_refused_and_leaves_nothing(
    hosts: RealHosts, server: ThreadingHTTPServer, harm: str, match: str
) -> None:
    Registry.harm = harm
    address = f"127.0.0.1:{server.server_port}"
    host, top = hosts.fresh()
    settings = ImageSettings(insecure_registries=(address,), unpacked_limit=Quantity.of(LIMIT))
    host = host.with_settings(settings)
    wanted = Volume(Image(), ImageSource(reference=f"{address}/app:1"))
    if not match:
        path = wanted.mount(host).path
        assert path is not None
        assert (path / "file").read_bytes() == b"1"
        return
    with pytest.raises(VolmgrError, match=match) as caught:
        wanted.mount(host)
    assert isinstance(caught.value, OperationError)
    assert len(str(caught.value)) < 1000
    left = [path for path in (top / "root").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in left) < MIB
