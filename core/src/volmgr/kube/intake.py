"""What an API server shows becomes what stands: each object is an origin of its own in the registry."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, cast

import msgspec

from volmgr.errors import ManifestError
from volmgr.kube.resources import Resource
from volmgr.manifest import Item, Parsed, SourceTypes, read_object
from volmgr.model.objects import Object
from volmgr.model.schema import Problem, SchemaError, Unknown
from volmgr.sources.offers import API_SERVER

if TYPE_CHECKING:
    from volmgr.kube.wire import Seen
    from volmgr.sources.registry import Registry

log = logging.getLogger("volmgr.kube")

SOURCE = API_SERVER
_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_NO_UID = Problem("metadata.uid", "is missing", "look at what lies before the API server, which sends one always")
_Fields = dict[str, object]


def origin_of(resource: Resource, namespace: str, name: str) -> str:
    """Name where an object stands, as kubectl does: `pods/default/web`."""
    return "/".join(part for part in (resource.plural, namespace if resource.namespaced else "", name) if part)


class Intake:
    """Offers to the registry what a server shows, and withdraws what it no longer has; on the thread of kube mode.

    Each call is False when something could not be recorded: `Registry.retry` tries it again.
    """

    def __init__(self, registry: Registry, types: SourceTypes) -> None:
        self._registry = registry
        self._types = types

    def offer(self, resource: Resource, seen: Seen) -> bool:
        """Let an object stand as it is now; one that cannot be read is a complaint, and its last good state stays."""
        origin = origin_of(resource, seen.namespace, seen.name)
        document = kept(resource, seen.raw)
        recorded = resource.kind != "Secret" or self._registry.keeps_secrets
        raw = msgspec.json.encode(document) if recorded else b""
        if resource.kind == "Pod" and self._registry.has_pod(SOURCE, origin, raw):
            return True  # most changes of a Pod's status say nothing of its volumes
        if resource.kind == "Pod" and not seen.uid:  # one made of its name, as for a file, would be another Pod's
            return self._complain(origin, (_NO_UID,))
        try:
            value = self._read(document, origin)
        except SchemaError as error:
            return self._complain(origin, error.problems)
        except RecursionError:
            return self._complain(origin, (Problem("", "it is nested too deeply", "flatten it"),))
        parsed = Parsed(items=(Item(value, 1, raw),))
        return self._registry.offer(SOURCE, origin, seen.version, parsed, read_at=time.time())

    def withdraw(self, resource: Resource, namespace: str, name: str) -> bool:
        """Let an object stand no longer."""
        return self._registry.withdraw(SOURCE, origin_of(resource, namespace, name))

    def standing(self, resource: Resource) -> frozenset[str]:
        """Give the origins of everything of a kind that stands."""
        prefix = f"{resource.plural}/"
        return frozenset(origin for origin in self._registry.origins(SOURCE) if origin.startswith(prefix))

    def withdraw_origin(self, origin: str) -> bool:
        """Let whatever stands at an origin stand no longer."""
        return self._registry.withdraw(SOURCE, origin)

    def _complain(self, origin: str, problems: Iterable[Problem]) -> bool:
        errors = (ManifestError(each.problem, file=origin, field=each.field, remedy=each.remedy) for each in problems)
        self._registry.complain(SOURCE, origin, tuple(errors))
        return True

    def _read(self, document: _Fields, origin: str) -> Object:
        """Read what a server accepted; what we know nothing of is a warning, never a refusal. Raises SchemaError."""
        try:
            return read_object(document, self._types, status=True)
        except SchemaError as error:
            value = read_object(document, self._types, unknown=Unknown.ALLOW, status=True)
            log.warning("%s: %s", origin, error)
            return value


def kept(resource: Resource, raw: bytes) -> _Fields:
    """Give of an object what counts for volumes: a change of anything else is none."""
    document = msgspec.json.decode(raw, type=dict[str, object])
    document["kind"], document["apiVersion"] = resource.kind, resource.api_version
    metadata = dict(cast("Mapping[str, object]", document.get("metadata") or {}))
    metadata.pop("managedFields", None)
    document["metadata"] = metadata
    if resource.kind == "Pod":
        metadata.pop("resourceVersion", None)
        document["status"] = _run(cast("Mapping[str, object]", document.get("status") or {}))
    return document


def _run(status: Mapping[str, object]) -> _Fields:
    """Give of a Pod's status its phase, and which containers run."""
    run: _Fields = {"phase": status["phase"]} if status.get("phase") else {}
    for name in _STATUSES:
        entries = list(_running(status.get(name)))
        if entries:
            run[name] = entries
    return run


def _running(statuses: object) -> Iterator[_Fields]:
    for entry in cast("list[_Fields]", statuses or []):
        state = entry.get("state")
        if isinstance(state, Mapping) and "running" in state:
            yield {"name": entry.get("name"), "state": {"running": {}}}
