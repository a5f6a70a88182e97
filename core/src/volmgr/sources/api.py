"""Pods from the local API: what the HTTP server calls with a request's body."""

from __future__ import annotations

from collections.abc import Sequence

from volmgr.errors import ManifestError, OperationError
from volmgr.manifest import SourceTypes, parse
from volmgr.sources.offers import API
from volmgr.sources.registry import Applied, Registry

Result = Applied | ManifestError | OperationError
"""ConflictError: it stands against what is there (409); another ManifestError: it is wrong (422); OperationError:
the disk refused its record (507)."""


class LocalApi:
    """Applies and deletes Pods; called from the server's threads."""

    def __init__(self, registry: Registry, types: SourceTypes) -> None:
        self._registry = registry
        self._types = types

    def apply(self, data: bytes) -> tuple[Result, ...]:
        """Take every Pod of a manifest, YAML or JSON, and say for each document what became of it."""
        parsed = parse(data, API, self._types)
        results: list[Result] = [*parsed.errors]
        for item in parsed.items:
            try:
                results.append(self._registry.apply(item))
            except (ManifestError, OperationError) as error:
                results.append(error)
        if not results:
            results.append(ManifestError("there is no Pod in it", file=API, remedy="send a Pod, as YAML or JSON"))
        return tuple(results)

    def delete(self, pod: str) -> tuple[str, ...]:
        """Let a Pod (name, `namespace/name` or UID) leave; gives the UIDs that did: none when it is unknown.

        Raises ConflictError when it comes from a file, OperationError when its record cannot be written.
        """
        uids: Sequence[str] = (pod,)
        if "/" in pod or not self._registry.knows(pod):
            uids = self._registry.uids(pod if "/" in pod else f"default/{pod}")[:1]
        return tuple(uid for uid in uids if self._registry.delete(uid))
