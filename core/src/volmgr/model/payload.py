"""What becomes the files of a secret, configMap, downwardAPI or projected volume: the rules, not the writing. Pure.

Source: behaviours §4.8, which is `pkg/volume/{secret,configmap,projected}` of kubelet 1.37.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from volmgr.errors import SpecError, TransientError
from volmgr.model.file_paths import clean_paths
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import ConfigMap, Object, Secret

T = TypeVar("T", bound=Object)

DEFAULT_MODE = 0o644
"""The mode of files of which nobody says one; an API server writes it into every volume, a manifest need not."""
GROUP_BITS = 0o440
"""What the Pod's group, and the owner, may do with a file once the volume is given to a group."""
_MISSING_KEY = "references non-existent secret key: {}"
_KINDS: Mapping[str, tuple[type[Secret | ConfigMap], str]] = {
    "Secret": (Secret, _MISSING_KEY),
    "ConfigMap": (ConfigMap, "configmap references non-existent config key: {}"),
}
"""The objects whose keys become files, and what kubelet says of a key that one lacks."""
_ADD = "add it there, correct items, or write optional: true"
"""What to do about a key that is missing."""
_MOST_MODE = 0o777


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyToPath:
    """One entry of `items`: which key becomes the file at which relative path, and its mode if not the default."""

    key: str
    path: str
    mode: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadFile:
    """One file of a volume: its bytes, its exact mode, its owner and group (-1: those of what the daemon makes).

    `due_at` is when another is to take its place (seconds of Unix time), if ever.
    """

    data: bytes = field(repr=False)
    mode: int
    uid: int = -1
    gid: int = -1
    due_at: float | None = None


Payload = Mapping[str, PayloadFile]
"""Files by their path relative to the volume."""


def mode_of(mode: int | None, default: int | None = None, where: str = "defaultMode") -> int:
    """Give the mode of a file: its own, the volume's, or 0644. Raises SpecError for one that is no file mode."""
    chosen = next((each for each in (mode, default) if each is not None), DEFAULT_MODE)
    if not 0 <= chosen <= _MOST_MODE:
        raise SpecError(
            f"{where}: {chosen} is no file mode, which is 0 to 0777; YAML reads 0644 as octal, JSON wants 420"
        )
    return chosen


def needed_object(objects: Mapping[ObjectRef, Object], ref: ObjectRef, kind: type[T], *, by: str = "") -> T:
    """Give an object that a volume is made of; `by` names who needs it.

    Raises TransientError for one that is missing, which waits for it.
    """
    found = objects.get(ref)
    if isinstance(found, kind):
        return found
    raise TransientError(f"{by} needs {ref}, which is missing" if by else f"{ref} is missing", waits_for=str(ref))


def object_files(
    objects: Mapping[ObjectRef, Object],
    ref: ObjectRef,
    items: Sequence[KeyToPath],
    *,
    default_mode: int | None = None,
    optional: bool = False,
    by: str = "",
) -> dict[str, PayloadFile]:
    """Give the files of a Secret or ConfigMap, as `files_of` does; none of a missing one if `optional`.

    Raises TransientError for one that is missing and waited for (`by` names who needs it), SpecError as `files_of`.
    """
    kind, missing = _KINDS[ref.kind]
    if optional and not isinstance(objects.get(ref), kind):
        return {}
    found = needed_object(objects, ref, kind, by=by)
    return files_of(_keys_of(found), items, default_mode=default_mode, optional=optional, missing=missing)


def _keys_of(found: Secret | ConfigMap) -> Mapping[str, bytes]:
    """Give the content of each key; raises SpecError for one that a ConfigMap has twice."""
    if isinstance(found, Secret):
        return found.data
    twice = sorted(found.data.keys() & found.binary_data.keys())
    if twice:
        raise SpecError(
            f"ConfigMap {found.metadata.namespace}/{found.metadata.name}: key {twice[0]} is in data and in binaryData;"
            " keep one of them"
        )
    return {**{key: text.encode() for key, text in found.data.items()}, **found.binary_data}


def check_items(items: Sequence[KeyToPath], default_mode: int | None) -> None:
    """Raise SpecError for modes and paths of `items` that may not be, whatever the object has."""
    mode_of(default_mode)
    for item in items:
        _mode_of(item, default_mode)
    clean_paths(dict.fromkeys(item.path for item in items))


def _mode_of(item: KeyToPath, default: int | None) -> int:
    return mode_of(item.mode, default, f"items[{item.key}].mode")


def files_of(
    data: Mapping[str, bytes],
    items: Sequence[KeyToPath],
    *,
    default_mode: int | None = None,
    optional: bool = False,
    missing: str = _MISSING_KEY,
) -> dict[str, PayloadFile]:
    """Give the files of one object's keys: all of them, or those that `items` choose.

    A key that is missing is left out if `optional`; else SpecError, worded as kubelet does in `missing`, with a remedy.
    """
    default = mode_of(default_mode)
    if not items:
        return {key: PayloadFile(data=value, mode=default) for key, value in data.items()}
    files: dict[str, PayloadFile] = {}
    for item in items:
        mode = _mode_of(item, default)
        if item.key in data:
            files[item.path] = PayloadFile(data=data[item.key], mode=mode)
        elif not optional:
            raise SpecError(f"{missing.format(item.key)}; {_ADD}")
    return files


def given_to(payload: Payload, group: int | None) -> dict[str, PayloadFile]:
    """Give a payload as the Pod's fsGroup gets it: its group, readable by owner and group (kubelet's 0440)."""
    if group is None:
        return dict(payload)
    return {path: replace(file, mode=file.mode | GROUP_BITS, gid=group) for path, file in payload.items()}


def due_at(payload: Payload) -> float | None:
    """Give when the first of the files is to be replaced, if ever."""
    return min((file.due_at for file in payload.values() if file.due_at is not None), default=None)


def widened(payload: Payload) -> list[str]:
    """Name the files whose mode a group of the Pod makes wider than it was written (kubernetes 57923)."""
    return sorted(path for path, file in payload.items() if file.mode | GROUP_BITS != file.mode)


def nested(mounts: Iterable[tuple[str, str, str]], volume: str) -> set[str]:
    """Give the directories that other volumes' mount paths need inside this one, relative to it.

    `mounts` are one container's: volume, mount path, subPath. Only the outermost of each nest are given: what is
    mounted there holds the rest.
    """
    cleaned = [(name, _parts(path), sub_path) for name, path, sub_path in mounts]
    found: set[tuple[str, ...]] = set()
    for name, mine, sub_path in cleaned:
        if name != volume or sub_path:
            continue
        below = {path[len(mine) :] for _, path, _ in cleaned if path[: len(mine)] == mine and len(path) > len(mine)}
        found |= {path for path in below if not any(path[:n] in below for n in range(1, len(path)))}
    return {"/".join(path) for path in found}


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in posixpath.normpath(f"/{path}").split("/") if part)
