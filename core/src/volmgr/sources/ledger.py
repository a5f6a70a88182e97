"""The records of what was accepted: `ROOT/volmgr/pods/<uid>.json` and `ROOT/volmgr/objects/…`. No decisions.

Secrets are kept only where that was asked for (`keeps_secrets`), and then in `ROOT/volmgr/secrets/objects` alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import msgspec

from volmgr import records
from volmgr.errors import ManifestError
from volmgr.host.interface import Files
from volmgr.host.paths import Paths
from volmgr.manifest import recall
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import Secret, ref_of
from volmgr.model.pod import Pod
from volmgr.sources.changes import Standing
from volmgr.sources.offers import API_SERVER, Accepted, ObjectOffer, Place, PodOffer

_POD = "pod"
_OBJECT = "object"
_SECRET = "secret"  # noqa: S105 - a kind of record


class Ledger:
    """Reads and writes the records; every write raises OperationError when it fails, and then changed nothing."""

    def __init__(self, files: Files, paths: Paths, *, keeps_secrets: bool = False) -> None:
        self._files = files
        self._keeps_secrets = keeps_secrets
        self._pods = paths.state / "pods"
        self._objects = paths.state / "objects"
        self._secrets = paths.secrets / "objects"
        self._damaged: set[Path] = set()
        self._mended: set[Path] = set()

    def write_pod(self, accepted: Accepted) -> None:
        """Write a Pod's record, so that it survives a power cut."""
        body: dict[str, object] = {**_offer_body(accepted.offer), "standing": accepted.standing.value}
        if accepted.successor is not None:
            body["successor"] = _offer_body(accepted.successor)
        if accepted.replaces:
            body["replaces"] = accepted.replaces
        path = self._pods / f"{accepted.offer.pod.uid}.json"
        records.write(self._files, path, _POD, body, durable=True)
        self._settle(path)

    def remove_pod(self, uid: str) -> None:
        """Remove a Pod's record."""
        path = self._pods / f"{uid}.json"
        self._files.remove_file(path, durable=True)
        self._settle(path)

    def pods(self) -> Iterator[Accepted | ManifestError]:
        """Read every Pod's record; a damaged one is an error that names it."""
        for path, body in records.every(self._files, self._pods, _POD):
            accepted = None if body is None else _accepted(body)
            if accepted is None or accepted.offer.pod.uid != path.stem:
                yield self._damage(
                    path, "nothing of the Pod is taken away until its source offers it; remove the record to give it up"
                )
            else:
                yield accepted

    def write_object(self, offer: ObjectOffer) -> None:
        """Write an object's record; a Secret's only if Secrets are kept, and its source cannot be read at a start."""
        secret = isinstance(offer.item, Secret)
        if secret and not (self._keeps_secrets and offer.place.source == API_SERVER):
            return
        body: dict[str, object] = {
            "source": offer.place.source,
            "origin": offer.place.origin,
            "document": offer.document,
            "revision": offer.revision,
            "read_at": offer.read_at,
            "manifest": msgspec.Raw(offer.raw),
        }
        if secret:
            self._files.ensure_directory(self._secrets.parent, 0o700, exact=True)
            self._files.ensure_directory(self._secrets, 0o700, exact=True)
        path, kind = self._object(ref_of(offer.item)), _SECRET if secret else _OBJECT
        records.write(self._files, path, kind, body, durable=True)
        self._settle(path)

    def remove_object(self, ref: ObjectRef) -> None:
        """Remove an object's record."""
        self._files.remove_file(self._object(ref), durable=ref.kind == Secret.__name__)

    def remove_secrets(self, *, but: frozenset[ObjectRef]) -> None:
        """Remove every record of a Secret but these, damaged ones and those of a newer volmgr too."""
        names = [name for name in self._files.names(self._secrets) if name.endswith(".json") and name[0] != "."]
        if not names:
            return
        kept = {self._object(ref).name for ref in but if ref.kind == Secret.__name__}
        for name in names:
            if name not in kept:
                self._files.remove_file(self._secrets / name, durable=True)
                self._settle(self._secrets / name)

    def objects(self) -> Iterator[ObjectOffer | ManifestError]:
        """Read every object's record; a damaged one is an error that names it."""
        kinds = [(self._objects, _OBJECT), *([(self._secrets, _SECRET)] if self._keeps_secrets else [])]
        for directory, kind in kinds:
            for path, body in records.every(self._files, directory, kind):
                offer = None if body is None else _object_offer(body)
                if offer is None or self._object(ref_of(offer.item)) != path:
                    yield self._damage(path, "the object is read anew when its source offers it")
                else:
                    yield offer

    def take_mended(self) -> tuple[Path, ...]:
        """Give the records that were damaged and are not any more, each once."""
        mended = tuple(sorted(self._mended))
        self._mended.clear()
        return mended

    def _damage(self, path: Path, remedy: str) -> ManifestError:
        self._damaged.add(path)
        return ManifestError("the record is damaged or was written by a newer volmgr", file=str(path), remedy=remedy)

    def _settle(self, path: Path) -> None:
        if path in self._damaged:
            self._damaged.discard(path)
            self._mended.add(path)

    def _object(self, ref: ObjectRef) -> Path:
        directory = self._secrets if ref.kind == Secret.__name__ else self._objects
        return directory / records.file_name(f"{ref.kind}.{ref.namespace}.{ref.name}")


def _offer_body(offer: PodOffer) -> dict[str, object]:
    return {
        "source": offer.place.source,
        "origin": offer.place.origin,
        "document": offer.document,
        "manifest": msgspec.Raw(offer.raw),
    }


def _accepted(body: dict[str, object]) -> Accepted | None:
    offer = _pod_offer(body)
    standing = next((each for each in Standing if each.value == body.get("standing")), None)
    if offer is None or standing is None:
        return None
    successor = body.get("successor")
    waiting = _pod_offer(cast("dict[str, object]", successor)) if isinstance(successor, dict) else None
    return Accepted(offer, standing, waiting, str(body.get("replaces", "")))


def _pod_offer(body: dict[str, object]) -> PodOffer | None:
    raw = msgspec.json.encode(body.get("manifest"))
    place, document = _place(body), body.get("document")
    pod = recall(raw, status=_has_status(place))
    if not isinstance(pod, Pod) or place is None or not isinstance(document, int):
        return None
    return PodOffer(pod, place, document, raw)


def _object_offer(body: dict[str, object]) -> ObjectOffer | None:
    raw = msgspec.json.encode(body.get("manifest"))
    place, document, revision = _place(body), body.get("document"), body.get("revision")
    item = recall(raw, status=_has_status(place))
    if item is None or isinstance(item, Pod) or place is None:
        return None
    if not isinstance(document, int) or not isinstance(revision, str):
        return None
    read_at = body.get("read_at")
    return ObjectOffer(item, place, document, revision, raw, read_at if isinstance(read_at, float) else 0.0)


def _has_status(place: Place | None) -> bool:
    return place is not None and place.source == API_SERVER


def _place(body: dict[str, object]) -> Place | None:
    source, origin = body.get("source"), body.get("origin")
    return Place(source, origin) if isinstance(source, str) and isinstance(origin, str) else None
