"""The words of the exec protocol: options in, reply out. Pure.

Formats: `behaviours.md` §4.12, which is `pkg/volume/flexvolume` of kubelet 1.37.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar, cast

from volmgr.plugin import FlexVolumeSource, Mount, OperationError, Secret, VolumeSpec

T = TypeVar("T")

SUCCESS = "Success"
NOT_SUPPORTED = "Not supported"

_PREFIX = "kubernetes.io/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What `init` says that a driver can do; what it leaves out is as here."""

    attach: bool = True
    selinux_relabel: bool = True
    supports_metrics: bool = False
    fs_group: bool = True
    requires_fs_resize: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a driver answered; it may repeat a secret, so it is never shown whole."""

    status: str = ""
    message: str = field(default="", repr=False)
    device: str = field(default="", repr=False)
    volume_name: str = field(default="", repr=False)
    attached: bool = False
    capabilities: Capabilities = field(default_factory=Capabilities)
    new_size: int = 0


def read_reply(text: str) -> Reply:
    """Read what a driver wrote: one JSON object, whose keys may be in any case. Raises ValueError."""
    try:
        value: object = json.loads(text)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("is no JSON object")  # noqa: TRY004 - as whatever is wrong in an answer
    fields = _lower(cast("dict[str, object]", value))
    abilities = fields.get("capabilities")
    if not isinstance(abilities, (dict, type(None))):
        raise ValueError("has capabilities that are no JSON object")  # noqa: TRY004 - as above
    return Reply(
        status=_get(fields, "status", ""),
        message=_get(fields, "message", ""),
        device=_get(fields, "device", ""),
        volume_name=_get(fields, "volumename", ""),
        attached=_get(fields, "attached", default=False),
        capabilities=_capabilities(_lower(cast("dict[str, object]", abilities or {}))),
        new_size=_get(fields, "volumenewsize", 0),
    )


def _lower(fields: Mapping[str, object]) -> dict[str, object]:
    return {key.lower(): value for key, value in fields.items() if value is not None}


def _capabilities(fields: Mapping[str, object]) -> Capabilities:
    default = Capabilities()
    return Capabilities(
        attach=_get(fields, "attach", default.attach),
        selinux_relabel=_get(fields, "selinuxrelabel", default.selinux_relabel),
        supports_metrics=_get(fields, "supportsmetrics", default.supports_metrics),
        fs_group=_get(fields, "fsgroup", default.fs_group),
        requires_fs_resize=_get(fields, "requiresfsresize", default.requires_fs_resize),
    )


def _get(fields: Mapping[str, object], key: str, default: T) -> T:
    value = fields.get(key, default)
    if type(value) is not type(default):
        raise ValueError(f"has {key} of type {type(value).__name__}")
    return value


def options_json(spec: VolumeSpec[FlexVolumeSource], more: Mapping[str, str] | None = None) -> str:
    """Give a volume's options as a driver reads them; those of its manifest override all others."""
    options = {
        f"{_PREFIX}fsType": spec.source.fs_type,
        f"{_PREFIX}readwrite": "ro" if spec.read_only else "rw",
        f"{_PREFIX}pvOrVolumeName": spec.name,
        **(more or {}),
        **spec.source.options,
    }
    return json.dumps(options, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def mount_options_of(request: Mount[FlexVolumeSource], secrets: Mapping[str, str]) -> dict[str, str]:
    """Give the options that `mount` has more than other commands: the Pod's, its group, and the secrets."""
    pod = request.pod
    options = {
        f"{_PREFIX}pod.name": pod.metadata.name,
        f"{_PREFIX}pod.namespace": pod.metadata.namespace,
        f"{_PREFIX}pod.uid": pod.uid,
        f"{_PREFIX}serviceAccount.name": pod.spec.service_account_name,
        f"{_PREFIX}readwrite": "ro" if request.read_only else "rw",
    }
    if request.fs_group is not None:
        options[f"{_PREFIX}mounterArgs.FsGroup"] = str(request.fs_group)
    return options | {f"{_PREFIX}secret/{key}": value for key, value in secrets.items()}


def encoded(secret: Secret, driver: str) -> dict[str, str]:
    """Give a Secret's values in base64; raises OperationError when its type is not the driver's name."""
    if secret.type != driver:
        meta = secret.metadata
        raise OperationError(
            f"cannot give secret {meta.namespace}/{meta.name} to driver {driver}: its type is {secret.type!r};"
            f" make it anew with type: {driver}"
        )
    return {key: base64.b64encode(value).decode() for key, value in secret.data.items()}
