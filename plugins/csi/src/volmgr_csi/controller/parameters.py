"""What a StorageClass tells whoever makes its volumes, apart from what its driver reads. Pure.

Source: `pkg/controller/controller.go` of external-provisioner v5 (keys, templates, what is stripped).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from volmgr.plugin import PersistentVolumeClaim, SecretReference, SpecError, is_label, is_subdomain

PREFIX = "csi.storage.k8s.io/"
"""What keys begin with that no driver is told."""
FS_TYPE = f"{PREFIX}fstype"
_OLD_FS_TYPE = "fstype"
"""In whatever case; a driver is told of it, too."""
_TOKEN = re.compile(r"\$(?:\{([^}]*)\}|(\w+))", re.ASCII)
"""`${pv.name}`, as Go's os.Expand reads it."""


class Use(StrEnum):
    """What a Secret of a class is for, as its keys are named."""

    PROVISIONER = "provisioner"
    CONTROLLER_PUBLISH = "controller-publish"
    CONTROLLER_EXPAND = "controller-expand"
    NODE_STAGE = "node-stage"
    NODE_PUBLISH = "node-publish"
    NODE_EXPAND = "node-expand"


_OLD: Mapping[Use, str] = MappingProxyType(
    {
        Use.PROVISIONER: "csiProvisionerSecret",
        Use.CONTROLLER_PUBLISH: "csiControllerPublishSecret",
        Use.NODE_STAGE: "csiNodeStageSecret",
        Use.NODE_PUBLISH: "csiNodePublishSecret",
    }
)
"""What the keys were called before they had a prefix: with `Name` and `Namespace`; a driver is told of them, too."""
_KNOWN = frozenset(
    {
        FS_TYPE,
        *(f"{PREFIX}{use}secret-{part}" for use in ("", *(f"{u}-" for u in Use)) for part in ("name", "namespace")),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What a class says for one claim: `told` is for the driver, the rest for whoever asks it."""

    told: Mapping[str, str]
    fs_type: str = ""
    secrets: Mapping[Use, SecretReference] = field(default_factory=lambda: MappingProxyType({}))


def read_parameters(given: Mapping[str, str], volume: str, claim: PersistentVolumeClaim) -> Parameters:
    """Read the parameters of a class for a claim, whose volume has this name; raises SpecError naming the key."""
    strange = sorted(key for key in given if key.startswith(PREFIX) and key not in _KNOWN)
    if strange:
        raise SpecError(f"parameters: {strange[0]} is no key of {PREFIX}; see its spelling")
    found = {use: _secret(given, use, volume, claim) for use in Use}
    return Parameters(
        told={key: value for key, value in given.items() if not key.startswith(PREFIX)},
        fs_type=_fs_type(given),
        secrets={use: reference for use, reference in found.items() if reference is not None},
    )


def _fs_type(given: Mapping[str, str]) -> str:
    said = [value for key, value in given.items() if key == FS_TYPE or key.lower() == _OLD_FS_TYPE]
    if len(said) > 1:
        raise SpecError(f"parameters: the file system is named by both fstype and {FS_TYPE}; remove fstype")
    return said[0] if said else ""


def _secret(given: Mapping[str, str], use: Use, volume: str, claim: PersistentVolumeClaim) -> SecretReference | None:
    """Give the Secret for one use, or the one for all; None when there is neither."""
    templates = _templates(given, f"{PREFIX}{use}-secret-", _OLD.get(use, "")) or _templates(
        given, f"{PREFIX}secret-", ""
    )
    if templates is None:
        return None
    name, namespace = templates
    meta = claim.metadata
    where = {"pv.name": volume, "pvc.namespace": meta.namespace}
    which = {**where, "pvc.name": meta.name}
    if use is not Use.PROVISIONER:  # what deletes the volume has no claim any more
        which |= {f"pvc.annotations['{key}']": value for key, value in meta.annotations.items()}
    return SecretReference(
        name=_resolved(name, which, is_subdomain, "Secret"),
        namespace=_resolved(namespace, where, is_label, "namespace"),
    )


def _templates(given: Mapping[str, str], key: str, old: str) -> tuple[str, str] | None:
    names = list(_said(given, f"{key}name", f"{old}Name" if old else ""))
    namespaces = list(_said(given, f"{key}namespace", f"{old}Namespace" if old else ""))
    if not names and not namespaces:
        return None
    if len(names) > 1 or len(namespaces) > 1:
        raise SpecError(f"parameters: {old}Name and {key}name name one thing twice; remove those without {PREFIX}")
    if len(names) != len(namespaces) or not names[0] or not namespaces[0]:
        raise SpecError(f"parameters: {key}name and {key}namespace go together; set both")
    return names[0], namespaces[0]


def _said(given: Mapping[str, str], *keys: str) -> Iterator[str]:
    return (given[key] for key in keys if key in given)


def _resolved(template: str, tokens: Mapping[str, str], is_valid: Callable[[str], bool], what: str) -> str:
    missing: list[str] = []

    def value(match: re.Match[str]) -> str:
        token = match[1] if match[1] is not None else match[2]
        if token not in tokens:
            missing.append(token)
        return tokens.get(token, "")

    found = _TOKEN.sub(value, template)
    if missing:
        known = ", ".join(f"${{{token}}}" for token in tokens)
        raise SpecError(f"parameters: {template!r} has ${{{missing[0]}}}, which nothing stands for; there are {known}")
    if not is_valid(found):
        raise SpecError(f"parameters: {template!r} becomes {found!r}, which is no name of a {what}")
    return found
