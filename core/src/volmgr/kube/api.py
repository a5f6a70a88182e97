"""What is asked of the API server, one request at a time; blocking, called on request threads."""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import Enum
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlencode

from volmgr import __version__
from volmgr.errors import OperationError
from volmgr.kube.access import Access, access_by
from volmgr.kube.attempt import Attempt, verb_of_get
from volmgr.kube.watch import CONNECT_TIMEOUT, WatchTarget
from volmgr.kube.wire import read_refusal
from volmgr.model.kube import KubeSettings

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

    from volmgr.kube.access import Session

PAGE_ROOM = 8
"""An answer may have so many times the bytes of one object: a page has hundreds, and few of them are large."""
_CHUNK = 1 << 16


class PatchKind(Enum):
    """How a patch is to be applied, by its media type."""

    STRATEGIC = "application/strategic-merge-patch+json"
    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"


class Api(Protocol):
    """The requests; each raises ApiError, and gives the server's JSON."""

    @property
    def address(self) -> str:
        """Of the server, such as https://192.0.2.1:6443, for messages."""
        ...

    @property
    def place(self) -> str:
        """What tells one cluster from another, as far as its address and authorities do."""
        ...

    def get(self, path: str, query: Mapping[str, str] = {}) -> bytes:
        """Read one object, or a page of a list."""
        ...

    def create(self, path: str, body: Mapping[str, object]) -> bytes:
        """POST an object to its collection, or a request to its subresource."""
        ...

    def update(self, path: str, body: Mapping[str, object]) -> bytes:
        """PUT an object in the place of another."""
        ...

    def patch(self, path: str, body: object, *, kind: PatchKind = PatchKind.STRATEGIC) -> bytes:
        """Change parts of an object."""
        ...

    def delete(self, path: str) -> None:
        """Delete an object."""
        ...

    def watch_target(self) -> WatchTarget | None:
        """Tell where watches connect to; None behind a proxy, where objects are asked for instead."""
        ...


class ApiServer:
    """An API server, by the transport of the package `kubernetes`."""

    def __init__(self, access: Access, settings: KubeSettings) -> None:
        self._access = access
        self._settings = settings
        self._target = None if access.is_proxied else WatchTarget(access, settings)

    @property
    def address(self) -> str:
        return self._access.address

    @property
    def place(self) -> str:
        return self._access.place

    def get(self, path: str, query: Mapping[str, str] = {}) -> bytes:
        return self._request(verb_of_get(path), "GET", path, query=query)

    def create(self, path: str, body: Mapping[str, object]) -> bytes:
        return self._request("create", "POST", path, body=dict(body))

    def update(self, path: str, body: Mapping[str, object]) -> bytes:
        return self._request("update", "PUT", path, body=dict(body))

    def patch(self, path: str, body: object, *, kind: PatchKind = PatchKind.STRATEGIC) -> bytes:
        return self._request("patch", "PATCH", path, body=body, media_type=kind.value)

    def delete(self, path: str) -> None:
        self._request("delete", "DELETE", path)

    def watch_target(self) -> WatchTarget | None:
        return self._target

    def _request(
        self,
        verb: str,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] = {},
        body: object = None,
        media_type: str = "application/json",
    ) -> bytes:
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        attempt = Attempt(verb, path, self.address, self._access.origin)
        url = f"{self.address}{path}?{urlencode(query)}" if query else f"{self.address}{path}"
        until = time.monotonic() + self._settings.request_timeout
        try:
            session = self._access.session()
            answer, content = self._exchange(session, method, url, body, media_type, until)
        except (ApiException, HTTPError, OSError) as error:
            raise attempt.unanswered(error, self._access.missed()) from error
        except _TooLongError as error:
            raise attempt.failed(f"{error}; lower kubernetes.page_size or raise kubernetes.object_limit") from error
        except OperationError as error:
            raise attempt.failed(str(error)) from error
        self._access.reached()
        if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
            if answer.status == HTTPStatus.UNAUTHORIZED:
                self._access.distrust(session)
            said = {name.lower(): value for name, value in answer.headers.items()}
            raise attempt.refused(read_refusal(answer.status, said, content))
        return content

    def _exchange(
        self, session: Session, method: str, url: str, body: object, media_type: str, until: float
    ) -> tuple[BaseHTTPResponse, bytes]:
        """Send a request, and give its answer and all of its content; `until` is in seconds of the monotonic clock."""
        headers = {"Accept": "application/json", "User-Agent": f"volmgr/{__version__}", **self._access.headers()}
        if body is not None:
            headers["Content-Type"] = media_type
        seconds = self._settings.request_timeout
        answer = session.rest.request(
            method, url, headers=headers, body=body, _request_timeout=(min(CONNECT_TIMEOUT, seconds), seconds)
        ).response
        try:
            return answer, _read(answer, self._settings.object_limit * PAGE_ROOM, until)
        finally:
            answer.release_conn()


class _TooLongError(Exception):
    """An answer is longer than is read."""


def _read(answer: BaseHTTPResponse, limit: int, until: float) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := answer.read1(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > limit:
            answer.close()
            raise _TooLongError(f"its answer has more than {limit} bytes")
        if time.monotonic() > until:  # what comes in drops never lets the socket's own time run out
            answer.close()
            raise TimeoutError
    return b"".join(parts)


def configured(kubeconfig: Path | None, settings: KubeSettings) -> ApiServer:
    """Give the API server that a file names, or that of the cluster we are a Pod of.

    Raises OperationError, which names the file, the field and the remedy.
    """
    return ApiServer(access_by(kubeconfig, settings.requests, settings.request_timeout), settings)
