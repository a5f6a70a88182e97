"""When the API server's own events arrive: a plain client in a process of its own that does nothing else."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Condition, Thread
from types import TracebackType
from typing import Self
from urllib.parse import urlencode, urlsplit

from tests.bench.mount_table import PATIENCE

Key = tuple[str, str]
"""The type of an event, and the UID of its object; for MODIFIED its resourceVersion instead."""


class PlainWatch:
    """One collection, watched from now on."""

    def __init__(self, kubeconfig: Path, path: str, **query: str) -> None:
        self._times: dict[Key, float] = {}
        self._news = Condition()
        argv = [sys.executable, "-m", "tests.bench.kube_watch", str(kubeconfig), f"{path}?{urlencode(query)}"]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        opened = self._process.stdout.readline()
        assert opened == "open\n", f"the plain watch of {path} did not begin: {opened!r}"
        self._reader = Thread(target=self._read, name="plain-watch", daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def when(self, kind: str, what: str) -> float:
        """Give the time (time.perf_counter) at which an event was received; waits for it."""
        with self._news:
            assert self._news.wait_for(lambda: (kind, what) in self._times, PATIENCE), f"no event {kind} {what}"
            return self._times[kind, what]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            at, kind, what = line.split()
            with self._news:
                self._times[kind, what] = float(at)
                self._news.notify_all()


def main(kubeconfig: Path, target: str) -> None:
    """Print `open`, then a line for each event; perf_counter is one clock for all processes."""
    Thread(target=_end_with_parent, daemon=True).start()
    for at, line in _lines(kubeconfig, target):
        event = json.loads(line)
        metadata = event["object"]["metadata"]
        what = metadata["resourceVersion"] if event["type"] == "MODIFIED" else metadata["uid"]
        print(at, event["type"], what, flush=True)


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


def _lines(kubeconfig: Path, target: str) -> Iterator[tuple[float, bytes]]:
    content = json.loads(kubeconfig.read_text())
    server, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
    context = ssl.create_default_context(cafile=server["certificate-authority"])
    context.load_cert_chain(user["client-certificate"], user["client-key"])
    address = urlsplit(str(server["server"]))
    connection = http.client.HTTPSConnection(address.netloc, context=context)
    connection.request("GET", f"{target}&watch=true")
    answer = connection.getresponse()
    assert answer.status == http.client.OK, answer.read()
    print("open", flush=True)
    rest = b""
    while data := answer.read1(1 << 16):
        at = time.perf_counter()
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield at, line


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
