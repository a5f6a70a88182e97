"""A plain client of the API server, for what tests do to it; not the one that is tested."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from urllib3 import BaseHTTPResponse, PoolManager, Timeout
from urllib3.exceptions import HTTPError

from tests.eventually import PATIENCE

Document = dict[str, Any]

PATCHES: Mapping[str, str] = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


class Refused(Exception):
    """The server said no; `status` is HTTP's, `reason` the Status object's."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason


@dataclass(frozen=True)
class Change:
    """One event of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""

    kind: str
    document: Document


class Client:
    """One user, as a kubeconfig says."""

    def __init__(self, kubeconfig: Path) -> None:
        content = json.loads(kubeconfig.read_text())
        server, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        context = ssl.create_default_context(cafile=server["certificate-authority"])
        if "client-certificate" in user:
            context.load_cert_chain(user["client-certificate"], user["client-key"])
        self._url = str(server["server"])
        self._headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        self._pool = PoolManager(
            ssl_context=context, retries=False, maxsize=8, timeout=Timeout(connect=PATIENCE, read=PATIENCE)
        )
        self._collections: dict[tuple[str, str], tuple[str, bool]] = {}

    def close(self) -> None:
        """Close its connections."""
        self._pool.clear()

    def get(self, path: str, **query: object) -> Document:
        """Read an object or a list."""
        return self._ask("GET", path, query=query)

    def items(self, path: str, **query: object) -> list[Document]:
        """Give the objects of a list."""
        return list(self.get(path, **query)["items"])

    def create(self, document: Mapping[str, Any]) -> Document:
        """Create an object of whatever kind."""
        return self.post(self._collection(document), document)

    def post(self, path: str, body: Mapping[str, Any]) -> Document:
        """Create what a path is for: tokens, bindings, evictions."""
        return self._ask("POST", path, body)

    def replace(self, path: str, document: Mapping[str, Any]) -> Document:
        """Replace an object, or its subresource."""
        return self._ask("PUT", path, document)

    def patch(self, path: str, body: object, kind: str = "merge") -> Document:
        """Change an object; `kind` is one of PATCHES."""
        return self._ask("PATCH", path, body, content=PATCHES[kind])

    def delete(self, path: str, **options: object) -> None:
        """Delete an object, or all of a collection. A Pod needs `gracePeriodSeconds=0`: no kubelet ends it."""
        self._ask("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", **options})

    def path(self, document: Mapping[str, Any]) -> str:
        """Give the path of an object."""
        return f"{self._collection(document)}/{document['metadata']['name']}"

    @contextmanager
    def watch(self, path: str, **query: object) -> Generator[Iterator[Change]]:
        """Watch a collection; the changes end when the server or the connection does."""
        answer = self._send("GET", path, {"watch": "true", **query}, stream=True)
        try:
            _check(answer)
            yield _changes(answer)
        finally:
            answer.close()

    def until(self, path: str, is_so: Callable[[Document], bool]) -> Document:
        """Return an object when something is so of it; it need not be there yet."""
        collection, _, name = path.rpartition("/")
        seen: object = "no such object"
        with self.watch(collection, fieldSelector=f"metadata.name={name}", timeoutSeconds=int(PATIENCE)) as changes:
            for change in changes:
                seen = change.document
                if change.kind in {"ADDED", "MODIFIED"} and is_so(change.document):
                    return change.document
        raise AssertionError(f"never came of {path}: {json.dumps(seen, indent=1)}")

    def until_gone(self, path: str) -> None:
        """Return when there is no such object."""
        collection, _, name = path.rpartition("/")
        selector = f"metadata.name={name}"
        listed = self.get(collection, fieldSelector=selector)
        if not listed["items"]:
            return
        version = listed["metadata"]["resourceVersion"]
        with self.watch(
            collection, fieldSelector=selector, resourceVersion=version, timeoutSeconds=int(PATIENCE)
        ) as changes:
            assert any(change.kind == "DELETED" for change in changes), f"{path} never went"

    def is_ready(self) -> bool:
        """Tell whether the server can be reached and says that it is ready."""
        try:
            return self._send("GET", "/readyz", {}).data == b"ok"
        except HTTPError:
            return False

    def is_there(self, path: str) -> bool:
        """Tell whether there is such an object."""
        return self._is_read_unless(path, "NotFound")

    def may_get(self, path: str) -> bool:
        """Tell whether this user may read an object that is there."""
        return self._is_read_unless(path, "Forbidden")

    def _is_read_unless(self, path: str, reason: str) -> bool:
        try:
            self.get(path)
        except Refused as refusal:
            if refusal.reason == reason:
                return False
            raise
        return True

    def _collection(self, document: Mapping[str, Any]) -> str:
        version, kind = document["apiVersion"], document["kind"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if (version, kind) not in self._collections:
            self._collections |= {
                (version, each["kind"]): (each["name"], each["namespaced"])
                for each in self.get(root)["resources"]
                if "/" not in each["name"]
            }
        plural, is_namespaced = self._collections[version, kind]
        namespace = document["metadata"].get("namespace", "default")
        return f"{root}/namespaces/{namespace}/{plural}" if is_namespaced else f"{root}/{plural}"

    def _ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, object] | None = None,
        content: str = "application/json",
    ) -> Document:
        answer = self._send(method, path, query or {}, body, content)
        _check(answer)
        return dict(answer.json())

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, object],
        body: object = None,
        content: str = "application/json",
        *,
        stream: bool = False,
    ) -> BaseHTTPResponse:
        return self._pool.request(
            method,
            f"{self._url}{path}" + (f"?{urlencode(query)}" if query else ""),
            body=None if body is None else json.dumps(body),
            headers={"Content-Type": content, **self._headers},
            preload_content=not stream,
        )


def _changes(answer: BaseHTTPResponse) -> Iterator[Change]:
    rest = b""
    for chunk in answer.stream():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            event = json.loads(line)
            yield Change(event["type"], event["object"])


def _check(answer: BaseHTTPResponse) -> None:
    if answer.status < 400:
        return
    status = json.loads(answer.data)
    raise Refused(answer.status, status.get("reason", ""), status.get("message", ""))
