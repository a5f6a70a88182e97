"""An API server in memory: objects by path, as much of it as what a node reads and writes needs."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, cast

from volmgr.kube.api import PatchKind
from volmgr.kube.errors import ApiError
from volmgr.kube.resources import BY_KIND
from volmgr.kube.watch import WatchTarget

Document = dict[str, Any]

_BY_PLURAL = {resource.plural: resource for resource in BY_KIND.values()}


class MemoryApi:
    """Keeps objects; `posted` answers what is posted to a path that ends so; while `down`, nobody answers."""

    address = "https://192.0.2.1:6443"

    def __init__(self) -> None:
        self.place = self.address
        self.objects: dict[str, Document] = {}
        self.posted: dict[str, Callable[[Document], Document]] = {}
        self.down = False
        self.refusal: ApiError | None = None
        """Given to each request instead of an answer."""
        self.refusals: list[ApiError] = []
        """Given to the next requests that write, one each."""
        self.after_get: Callable[[str], None] | None = None
        """Called when an answer to a GET is on its way: somebody else writes then."""
        self.requests: list[tuple[str, str, Any]] = []
        self._lock = threading.RLock()
        self._version = 0

    def put(self, path: str, document: Mapping[str, Any]) -> Document:
        """Let there be an object, whatever was there."""
        with self._lock:
            self._version += 1
            kept = json.loads(json.dumps(document))
            kept.setdefault("metadata", {})["resourceVersion"] = str(self._version)
            self.objects[path] = kept
            return dict(kept)

    def go_back_to(self, version: int) -> None:
        """Have this version from now on, as after a backup was restored; objects stay as they are."""
        with self._lock:
            self._version = version

    def run_to(self, version: int) -> None:
        """Let other objects change until there is this version."""
        with self._lock:
            assert version >= self._version
            self._version = version

    def asked(self, method: str) -> list[tuple[str, Any]]:
        """Give the paths and bodies of the requests of a method."""
        with self._lock:
            return [(path, body) for verb, path, body in self.requests if verb == method]

    def get(self, path: str, query: Mapping[str, str] = {}) -> bytes:
        with self._lock:
            self._note("GET", path, dict(query))
            is_list = path.rpartition("/")[2] in _BY_PLURAL
            answer = json.dumps(self._listed(path, query) if is_list else self._found(path)).encode()
            if self.after_get is not None:
                self.after_get(path)
            return answer

    def create(self, path: str, body: Mapping[str, object]) -> bytes:
        with self._lock:
            self._note("POST", path, body)
            for end, answer in self.posted.items():
                if path.endswith(end):
                    return json.dumps(answer(json.loads(json.dumps(body)))).encode()
            metadata = body["metadata"]
            assert isinstance(metadata, dict)
            target = f"{path}/{metadata['name']}"
            if target in self.objects:
                raise ApiError(f"{target} exists", status=409, reason="AlreadyExists")
            return json.dumps(self.put(target, body)).encode()

    def update(self, path: str, body: Mapping[str, object]) -> bytes:
        with self._lock:
            self._note("PUT", path, body)
            self._check_version(self._found(path), json.loads(json.dumps(body)))
            return json.dumps(self.put(path, body)).encode()

    def patch(self, path: str, body: object, *, kind: PatchKind = PatchKind.STRATEGIC) -> bytes:
        with self._lock:
            self._note("PATCH", path, body)
            target = path.removesuffix("/status")
            wanted = json.loads(json.dumps(body))
            found = self._found(target)
            self._check_version(found, wanted)
            merged = cast("Document", _merged(found, wanted, by_type=kind is PatchKind.STRATEGIC))
            return json.dumps(self.put(target, merged)).encode()

    def delete(self, path: str) -> None:
        with self._lock:
            self._note("DELETE", path, None)
            self._found(path)
            del self.objects[path]

    def watch_target(self) -> WatchTarget | None:
        return None

    def _listed(self, collection: str, query: Mapping[str, str]) -> Document:
        items = [each for path, each in sorted(self.objects.items()) if is_in(path, each, collection, query)]
        resource = _BY_PLURAL[collection.rpartition("/")[2]]
        who = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version}
        return {**who, "metadata": {"resourceVersion": str(self._version)}, "items": items}

    def refuse(self, error: ApiError | None) -> None:
        """Refuse every request from now on; None: no more."""
        with self._lock:
            self.refusal = error

    def _note(self, method: str, path: str, body: object) -> None:
        self.requests.append((method, path, body))
        if self.down:
            raise ApiError(f"cannot reach {self.address}: no answer (connection refused)")
        if self.refusal is not None:
            raise self.refusal
        if self.refusals and method != "GET":
            raise self.refusals.pop(0)

    def _found(self, path: str) -> Document:
        if path not in self.objects:
            raise ApiError(f"{path} not found", status=404, reason="NotFound")
        return self.objects[path]

    def _check_version(self, found: Document, body: Document) -> None:
        said = body.get("metadata", {}).get("resourceVersion", "")
        if said and said != found["metadata"]["resourceVersion"]:
            raise ApiError("the object has been modified", status=409, reason="Conflict")
        uid = body.get("metadata", {}).get("uid", "")
        if uid and uid != found["metadata"].get("uid", uid):
            raise ApiError("the UID in the precondition does not match", status=409, reason="Conflict")


def is_in(path: str, document: Document, collection: str, query: Mapping[str, str]) -> bool:
    """Say whether an object is in a collection (of a namespace, or of all), and chosen by its field selector."""
    parent = path.rpartition("/")[0]
    name, _, wanted = query.get("fieldSelector", "").partition("=")
    value: Any = document
    for part in name.split(".") if name else ():
        value = value.get(part, {})
    return collection in {parent, re.sub("/namespaces/[^/]+", "", parent)} and (not name or value == wanted)


def _merged(old: object, new: object, *, by_type: bool) -> object:
    """Merge as RFC 7396 does; lists of conditions by their type, as a strategic merge does."""
    if by_type and isinstance(old, list):
        kept = {item["type"]: item for item in cast("list[Document]", old)}
        for item in cast("list[Document]", new):
            kept[item["type"]] = {**kept.get(item["type"], {}), **item}
        return list(kept.values())
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    merged = dict(cast("Document", old))
    for key, value in cast("Document", new).items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value, by_type=by_type)
    return merged
