"""Fields outside of volumes that nobody reads and that are meant to count: notes for their author. Pure.

What volumes do not need is let through, so that a Pod of anybody's is accepted as it is. A misspelt `fsGroup` would be,
too, and nobody would hear of it. Source of the names: the API reference of Kubernetes 1.35.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from volmgr.model.schema import join

_NEAR = 0.8
"""How alike two names are (difflib) of which one is taken for a misspelt other."""
_MODES = {
    "RWO": "ReadWriteOnce",
    "ROX": "ReadOnlyMany",
    "RWX": "ReadWriteMany",
    "RWOP": "ReadWriteOncePod",
}


@dataclass(frozen=True, slots=True)
class _Level:
    """The names of one mapping, those that have more below them, and whether all names are here that there can be."""

    names: frozenset[str]
    below: Mapping[str, _Level] = field(default_factory=dict[str, "_Level"])
    whole: bool = True


def _level(names: str, *, whole: bool = True, **below: _Level) -> _Level:
    return _Level(frozenset({*names.split(), *below}), below, whole)


_META = _level(
    "name generateName namespace uid resourceVersion generation creationTimestamp deletionTimestamp selfLink"
    " deletionGracePeriodSeconds labels annotations ownerReferences finalizers managedFields"
)
_POD_SECURITY = _level(
    "appArmorProfile fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser seLinuxChangePolicy seLinuxOptions"
    " seccompProfile supplementalGroups supplementalGroupsPolicy sysctls windowsOptions",
    whole=False,
)
_CONTAINER = _level(
    "args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe resizePolicy"
    " resources restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce targetContainerName"
    " terminationMessagePath terminationMessagePolicy tty volumeDevices volumeMounts workingDir",
    whole=False,
)
_POD_SPEC = _level(
    "activeDeadlineSeconds affinity automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks"
    " hostAliases hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride imagePullSecrets nodeName"
    " nodeSelector os overhead preemptionPolicy priority priorityClassName readinessGates resourceClaims resources"
    " restartPolicy runtimeClassName schedulerName schedulingGates serviceAccount serviceAccountName"
    " setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations"
    " topologySpreadConstraints volumes workloadRef",
    whole=False,
    securityContext=_POD_SECURITY,
    containers=_CONTAINER,
    initContainers=_CONTAINER,
    ephemeralContainers=_CONTAINER,
)
_CLAIM_SPEC = _level(
    "accessModes dataSource dataSourceRef selector storageClassName volumeAttributesClassName volumeMode volumeName",
    resources=_level("claims limits requests"),
)
_VOLUME_SPEC = _level(
    "accessModes capacity claimRef mountOptions nodeAffinity persistentVolumeReclaimPolicy storageClassName"
    " volumeAttributesClassName volumeMode",
    whole=False,
)
_KINDS: Mapping[str, _Level] = {
    "Pod": _level("apiVersion kind status", metadata=_META, spec=_POD_SPEC),
    "ConfigMap": _level("apiVersion kind binaryData data immutable", metadata=_META),
    "Secret": _level("apiVersion kind data immutable stringData type", metadata=_META),
    "PersistentVolumeClaim": _level("apiVersion kind status", metadata=_META, spec=_CLAIM_SPEC),
    "PersistentVolume": _level("apiVersion kind status", metadata=_META, spec=_VOLUME_SPEC),
    "StorageClass": _level(
        "apiVersion kind allowVolumeExpansion allowedTopologies mountOptions parameters provisioner reclaimPolicy"
        " volumeBindingMode",
        metadata=_META,
    ),
}


def doubts(document: Mapping[str, object], path: str = "") -> Iterator[str]:
    """Name each field of an object that looks misspelt or misplaced, and each access mode that there is not."""
    kind = str(document.get("kind"))
    if kind in _KINDS:
        yield from _fields(document, _KINDS[kind], path)
    if kind in {"PersistentVolume", "PersistentVolumeClaim"}:
        yield from _access_modes(document.get("spec"), join(path, "spec.accessModes"))


def _fields(value: object, level: _Level, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for place, each in enumerate(cast("list[object]", value)):
            yield from _fields(each, level, f"{path}[{place}]")
    if not isinstance(value, Mapping):
        return
    for name, below in cast("Mapping[object, object]", value).items():
        if not isinstance(name, str):
            continue
        if name not in level.names:
            yield from _doubt(name, level, path)
        elif name in level.below:
            yield from _fields(below, level.below[name], join(path, name))


def _doubt(name: str, level: _Level, path: str) -> Iterator[str]:
    where = f"{join(path, name[:60])}: unknown field, which nobody reads"
    if near := _meant(name, level.names):
        yield f"{where}; did you mean {near}?"
    elif level.whole:
        yield f"{where}; known here: {', '.join(sorted(level.names))}"


def _meant(name: str, names: frozenset[str]) -> str:
    """Give the name that a misspelt one stands for, if it is like one."""
    folded = {each.casefold(): each for each in names}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=_NEAR)
    return folded[near[0]] if near else ""


def _access_modes(spec: object, path: str) -> Iterator[str]:
    modes = cast("Mapping[str, object]", spec).get("accessModes") if isinstance(spec, Mapping) else None
    for mode in cast("list[object]", modes) if isinstance(modes, list) else ():
        if isinstance(mode, str) and mode not in _MODES.values():
            meant = _MODES.get(mode.upper(), "")
            remedy = f"write {meant}" if meant else f"there are {', '.join(_MODES.values())}"
            yield f"{path}: {mode[:60]!r} is no access mode; {remedy}"
