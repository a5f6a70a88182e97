"""List and watch of one collection: what is there is told to a sink, and kept current."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from volmgr.kube.api import Api
from volmgr.kube.errors import ApiError
from volmgr.kube.resources import Resource
from volmgr.kube.thread import KubeThread
from volmgr.model.kube import KubeSettings


@dataclass(frozen=True, slots=True)
class Seen:
    """One object as the server sent it: `raw` is its JSON, which in a list has neither apiVersion nor kind."""

    namespace: str
    name: str
    uid: str
    version: str
    raw: bytes = field(repr=False)


class ReflectorSink(Protocol):
    """Hears of a collection, on the thread of Kubernetes mode."""

    def listed(self, seen: Sequence[Seen]) -> None:
        """Take the whole set, in the place of all that was heard before."""
        ...

    def changed(self, seen: Seen) -> None:
        """Take an object that is new or other than before."""
        ...

    def gone(self, seen: Seen) -> None:
        """Forget an object; `seen` is its last state."""
        ...

    def troubled(self, error: ApiError | None) -> None:
        """Learn why what was heard may be old; None: it is current again."""
        ...


class Reflector:
    """Keeps a sink current; all on the thread of Kubernetes mode."""

    def __init__(
        self,
        thread: KubeThread,
        api: Api,
        resource: Resource,
        sink: ReflectorSink,
        settings: KubeSettings,
        *,
        namespace: str = "",
        field_selector: str = "",
        label_selector: str = "",
    ) -> None:
        self.last_contact = 0.0
        """Unix time of the last thing that the server said, bookmarks too; 0: never."""
        self.problem = ""
        """Why it is not current now; empty when it is."""
        self._thread = thread
        self._api = api
        self._resource = resource
        self._sink = sink
        self._settings = settings
        self._namespace = namespace
        self._selectors = {"fieldSelector": field_selector, "labelSelector": label_selector}

    def start(self) -> None:
        """Begin to list."""

    def stop(self) -> None:
        """Hear nothing any more."""
