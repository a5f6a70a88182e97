"""Names and passwords of CHAP: which Secret has them, and what of it goes into open-iscsi's database. Pure.

Source: `chapSt`, `chapSess` and `createSecretMap` of kubelet's `pkg/volume/iscsi`; keys that are missing are not set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from volmgr.plugin import ObjectRef, Objects, OperationError, Pod, Secret, VolumeSpec, needed_object
from volmgr_iscsi.source import IscsiSource

_DISCOVERY = "discovery.sendtargets.auth"
_SESSION = "node.session.auth"
_KEYS = ("username", "password", "username_in", "password_in")

_NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chap:
    """Lines of records, by their names; empty where nothing is proved. Never printed."""

    discovery: Mapping[str, str] = field(default_factory=lambda: _NOTHING, repr=False)
    session: Mapping[str, str] = field(default_factory=lambda: _NOTHING, repr=False)

    @classmethod
    def of(cls, spec: VolumeSpec[IscsiSource], objects: Objects) -> Self:
        """Give those of a volume; raises TransientError for a missing Secret, OperationError for a wrong one."""
        source = spec.source
        if not source.needs_secret or source.secret_ref is None:
            return cls()
        secret = _secret(spec, objects)
        return cls(
            discovery=_lines(_DISCOVERY, secret) if source.chap_auth_discovery else _NOTHING,
            session=_lines(_SESSION, secret) if source.chap_auth_session else _NOTHING,
        )


def secret_ref(spec: VolumeSpec[IscsiSource], pod: Pod) -> ObjectRef | None:
    """Name the Secret of a volume: in the Pod's namespace, unless a PersistentVolume says another."""
    wanted = spec.source.secret_ref
    if not spec.source.needs_secret or wanted is None or not wanted.name:
        return None
    namespace = wanted.namespace if not spec.inline and wanted.namespace else pod.metadata.namespace
    return ObjectRef("Secret", namespace, wanted.name)


def _secret(spec: VolumeSpec[IscsiSource], objects: Objects) -> Secret:
    """Find the Secret among the objects of the Pod that came first: a request for a device names no Pod."""
    wanted = spec.source.secret_ref
    name = wanted.name if wanted is not None else ""
    said = wanted.namespace if wanted is not None and not spec.inline else ""
    found = [ref for ref in objects if ref.kind == "Secret" and ref.name == name and said in ("", ref.namespace)]
    ref = found[0] if found else ObjectRef("Secret", said, name)
    return needed_object(objects, ref, Secret, by=f"logging in for volume {spec.name}")


def _lines(prefix: str, secret: Secret) -> Mapping[str, str]:
    given = {f"{prefix}.{key}": secret.data.get(f"{prefix}.{key}", b"") for key in _KEYS}
    return {f"{prefix}.authmethod": "CHAP"} | {name: _text(name, value) for name, value in given.items() if value}


def _text(name: str, value: bytes) -> str:
    """Read a value; one with a line break would write further lines into the record."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\n"
    if not text.isprintable() or text != text.strip():
        raise OperationError(
            f"key {name} of the Secret has a line break, a space at an end or what is no text: open-iscsi cannot be"
            " told such a value; correct the Secret (echo -n)"
        )
    return text
