"""YAML and JSON to the nouns of the model; messages carry file, document, field path and remedy. Pure.

One bad document never stops the others of its file.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import cast

import msgspec

from volmgr.errors import ManifestError
from volmgr.manifest.documents import documents
from volmgr.manifest.kinds import GROUPS, read_object
from volmgr.manifest.spelling import doubts
from volmgr.manifest.volumes import POD_FIELDS, PV_FIELDS, NoTypes, SourceTypes
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import CLUSTER_WIDE, Object
from volmgr.model.schema import Problem, SchemaError, Unknown, describe, join

__all__ = [
    "LIMIT",
    "POD_FIELDS",
    "PV_FIELDS",
    "Item",
    "NoTypes",
    "Parsed",
    "SourceTypes",
    "parse",
    "prepare",
    "read_object",
    "recall",
]

_MAKERS = frozenset({"CronJob", "DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"})
"""Kinds of which a cluster makes Pods; there is none here."""
LIMIT = 10 << 20
"""Bytes; no manifest file is longer."""

ERRORS_NAMED = 100
"""Errors of one file, and notes, that are told one by one: a file of garbage must not flood the log."""


@dataclass(frozen=True, slots=True)
class Item:
    """One object of a file; `raw` is its document as JSON, from which `recall` reads it back (empty for Secrets)."""

    value: Object
    document: int
    raw: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a file says.

    `broken` names the objects whose documents are wrong; `whole` is False when there is a document of which not even
    the name is known, so that nothing can be said to be missing from the file.
    """

    items: tuple[Item, ...] = ()
    errors: tuple[ManifestError, ...] = ()
    notes: tuple[str, ...] = ()
    broken: frozenset[ObjectRef] = frozenset()
    whole: bool = True


@dataclass(slots=True)
class _Findings:
    file: str
    types: SourceTypes
    items: list[Item] = field(default_factory=list[Item])
    errors: list[ManifestError] = field(default_factory=list[ManifestError])
    notes: list[str] = field(default_factory=list[str])
    broken: set[ObjectRef] = field(default_factory=set[ObjectRef])
    whole: bool = True
    unnamed: int = 0

    def refuse(self, number: int, problem: Problem) -> None:
        if len(self.errors) >= ERRORS_NAMED:
            self.unnamed += 1
            return
        self.errors.append(
            ManifestError(problem.problem, file=self.file, document=number, field=problem.field, remedy=problem.remedy)
        )

    def note(self, number: int, texts: Iterable[str]) -> None:
        room = max(0, ERRORS_NAMED - len(self.notes))
        self.notes += (f"{self.file}: document {number}: {text}" for text in islice(texts, room))

    def parsed(self) -> Parsed:
        if self.unnamed:
            rest = f"{self.unnamed} more errors are not named"
            self.errors.append(ManifestError(rest, file=self.file, remedy="mend the first ones"))
        return Parsed(tuple(self.items), tuple(self.errors), tuple(self.notes), frozenset(self.broken), self.whole)


def parse(data: bytes, file: str, types: SourceTypes | None = None) -> Parsed:
    """Read a manifest file."""
    found = _Findings(file, types or NoTypes())
    if len(data) > LIMIT:
        return Parsed(errors=(too_large(file, len(data)),), whole=False)
    for document in documents(data, is_json=file.endswith(".json")):
        if document.problem is not None:
            found.refuse(document.number, document.problem)
            found.whole = False
            continue
        for path, entry in _entries(document.data):
            _take(found, document.number, path, entry)
    return found.parsed()


def prepare() -> None:
    """Import and derive what the first Pod needs, so that it need not wait 40 ms for that."""
    recall(b'{"kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [{"name": "x"}]}}')


def too_large(file: str, size: int) -> ManifestError:
    """Say that a file is beyond `LIMIT`."""
    problem = f"the file has {size} bytes, and at most {LIMIT} (10 MiB) are read"
    return ManifestError(problem, file=file, remedy="split it, or move large data into a volume")


def recall(raw: bytes, *, status: bool = False) -> Object | None:
    """Read an object that was accepted before back from its `raw`; None when it is damaged.

    `status`: an API server wrote it, so that what it says in `status` counts.
    """
    try:
        document = msgspec.json.decode(raw, type=dict[str, object])
        if document.get("kind") not in GROUPS:
            return None
        return read_object(document, unknown=Unknown.ALLOW, status=status)
    except (msgspec.DecodeError, SchemaError):
        return None


def _entries(data: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Give the objects of a document: itself, or the items of a list kind."""
    if not isinstance(data, dict):
        yield path, data
        return
    document = cast("dict[str, object]", data)
    kind = document.get("kind")
    if not isinstance(kind, str) or not kind.endswith("List") or not isinstance(document.get("items"), list):
        yield path, document
        return
    for index, entry in enumerate(cast("list[object]", document["items"])):
        said: dict[str, object] = {}
        if kind != "List":  # items of typed lists need not say what they are
            said = {"apiVersion": document.get("apiVersion"), "kind": kind.removesuffix("List")}
        whole: object = {**said, **cast("dict[str, object]", entry)} if isinstance(entry, dict) else entry
        yield from _entries(whole, join(path, f"items[{index}]"))


def _take(found: _Findings, number: int, path: str, entry: object) -> None:
    if not isinstance(entry, dict):
        problem = f"{describe(entry)} where a Kubernetes object is needed"
        found.refuse(number, Problem(path, problem, "write apiVersion, kind, metadata and spec"))
        found.whole = False
        return
    document = cast("dict[str, object]", entry)
    wrong = _kind_problem(document)
    if wrong is None and (note := _foreign(document)):
        found.note(number, [note])
        return
    try:
        if wrong is not None:
            raise SchemaError([wrong])
        value = read_object(document, found.types)
        raw = b"" if document["kind"] == "Secret" else msgspec.json.encode(document)
    except SchemaError as error:
        for each in error.problems:
            found.refuse(number, each.below(path))
    except (UnicodeEncodeError, OverflowError):
        found.refuse(number, Problem(path, "has text or numbers that JSON cannot say", "write plain text"))
    else:
        found.items.append(Item(value, number, raw))
        found.note(number, doubts(document, path))
        return
    ref = _ref(document)
    if ref is None:
        found.whole = False
    else:
        found.broken.add(ref)


def _kind_problem(document: Mapping[str, object]) -> Problem | None:
    for name in ("apiVersion", "kind"):
        value = document.get(name)
        if not isinstance(value, str) or not value:
            problem = "is missing" if value is None else f"{describe(value)} where text is needed"
            return Problem(name, problem, "every Kubernetes object has apiVersion and kind, such as v1 and Pod")
    kind = str(document["kind"])
    if kind == "Pod" and document["apiVersion"] != "v1":
        return Problem("apiVersion", f"{str(document['apiVersion'])[:40]!r} has no Pod", "write apiVersion: v1")
    if kind not in GROUPS and _group(document) in GROUPS.values():
        near = [known for known in GROUPS if kind.lower() in {known.lower(), f"{known.lower()}s"}]
        near = near or difflib.get_close_matches(kind, GROUPS, n=1, cutoff=0.85)
        if near:
            return Problem("kind", f"{kind[:40]!r} is no kind", f"did you mean {near[0]}?")
    if not isinstance(document.get("metadata"), dict):
        return Problem("metadata", "is missing or no mapping", "every Kubernetes object has metadata with a name")
    return None


def _foreign(document: Mapping[str, object]) -> str:
    """Say that a valid object is none that volumes need."""
    kind, version = str(document["kind"]), str(document["apiVersion"])
    if GROUPS.get(kind) == _group(document):
        return ""
    made = "; write its spec.template as a Pod, nobody makes Pods of it here" if kind in _MAKERS else ""
    return f"a {kind} of {version} is nothing that volumes need; it is left out{made}"


def _group(document: Mapping[str, object]) -> str:
    return str(document["apiVersion"]).rpartition("/")[0]


def _ref(document: Mapping[str, object]) -> ObjectRef | None:
    metadata, kind = document.get("metadata"), document.get("kind")
    if not isinstance(metadata, dict) or kind not in GROUPS:
        return None
    fields = cast("dict[str, object]", metadata)
    name, namespace = fields.get("name"), fields.get("namespace") or "default"
    if not isinstance(name, str) or not isinstance(namespace, str):
        return None
    return ObjectRef(str(kind), "" if kind in CLUSTER_WIDE else namespace, name)
