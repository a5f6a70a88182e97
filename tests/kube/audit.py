"""Who asked the API server for what: its audit log."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Request:
    """One that the server received; `code` is HTTP's, 0 while there is no answer; `over`: nothing more comes of it."""

    user: str
    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    uri: str
    code: int
    over: bool = False


def audit_policy(unlogged: Sequence[str]) -> Mapping[str, object]:
    """Give the policy that logs everybody but some users, and no bodies."""
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "rules": [{"level": "None", "users": list(unlogged)}, {"level": "Metadata"}],
    }


class AuditLog:
    """A log that is being written. A request is there before it is answered; its code may come after the answer."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def mark(self) -> int:
        """Give where the log ends now."""
        return self._path.stat().st_size if self._path.exists() else 0

    def requests(self, *, after: int = 0, user: str = "", verb: str = "", resource: str = "") -> Sequence[Request]:
        """Give what was received after a mark, in order; what is empty stands for any."""
        wanted = {"user": user, "verb": verb, "resource": resource}
        return [
            request
            for request in self._received(after)
            if all(not value or getattr(request, name) == value for name, value in wanted.items())
        ]

    def _received(self, after: int) -> Sequence[Request]:
        found: dict[str, Request] = {}
        for event in self._events(after):
            if event["stage"] == "RequestReceived" or event["auditID"] in found:
                found[event["auditID"]] = _request(event)
        return list(found.values())

    def _events(self, after: int) -> Sequence[dict[str, Any]]:
        if not self._path.exists():
            return []
        with self._path.open("rb") as log:
            log.seek(after)
            complete, _, _ = log.read().rpartition(b"\n")
        return [json.loads(line) for line in complete.splitlines()]


def _request(event: Mapping[str, Any]) -> Request:
    aim = event.get("objectRef", {})
    return Request(
        user=event["user"]["username"],
        verb=event["verb"],
        resource=aim.get("resource", ""),
        subresource=aim.get("subresource", ""),
        namespace=aim.get("namespace", ""),
        name=aim.get("name", ""),
        uri=event["requestURI"],
        code=event.get("responseStatus", {}).get("code", 0),
        over=event["stage"] == "ResponseComplete",
    )
