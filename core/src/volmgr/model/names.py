"""Names that kubelet gives to volumes, and the rules for the names that people give.

Source: `pkg/volume/util` of kubelet 1.37 (unique names, escaping) and the DNS label rules of the API.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import cast

import msgspec

from volmgr.model.driver_sources import CSI_FIELD, FLEX_FIELD

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_LABEL_TEXT = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_UID = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,126}[A-Za-z0-9])?", re.ASCII)
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_SUBDOMAIN_LENGTH = 253
_PROJECTED = frozenset({"secret", "configMap", "downwardAPI", "projected"})
CSI = "kubernetes.io/csi"
"""kubelet's name for the plugin of all volumes of `csi`, whichever class serves their driver here."""
_MODES = frozenset({"defaultMode", "mode"})
_POD_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "pods.volmgr")
_CLAIM_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "claims.volmgr")


def is_label(name: str) -> bool:
    """Say whether `name` is a DNS label (at most 63 characters): names of Pod volumes and containers."""
    return _LABEL.fullmatch(name) is not None


def is_subdomain(name: str) -> bool:
    """Say whether `name` is a DNS subdomain (at most 253 characters): names of Pods and other objects."""
    return len(name) <= _SUBDOMAIN_LENGTH and _SUBDOMAIN.fullmatch(name) is not None


def is_label_key(key: str) -> bool:
    """Say whether an object may have a label of this name, such as `topology.kubernetes.io/zone`."""
    prefix, slash, name = key.rpartition("/")
    return _LABEL_TEXT.fullmatch(name) is not None and (not slash or is_subdomain(prefix))


def is_label_value(value: str) -> bool:
    """Say whether a label may have this value."""
    return not value or _LABEL_TEXT.fullmatch(value) is not None


def is_bundle(name: str) -> bool:
    """Say whether `name` is one of a ClusterTrustBundle: a DNS subdomain, below its signer's parts if it has one.

    `example.com:ca:roots` is of the signer `example.com/ca`.
    """
    *signer, last = name.split(":")
    return is_subdomain(last) and all(map(is_subdomain, signer)) and len(name) <= _SUBDOMAIN_LENGTH


def is_uid(uid: str) -> bool:
    """Say whether `uid` can safely be a directory name."""
    return _UID.fullmatch(uid) is not None


def is_file_name(name: str) -> bool:
    """Say whether `name` names something directly in a directory, and not the directory or its parent."""
    return name not in {"", ".", ".."} and not {"/", "\0"} & set(name)


def path_problem(path: str) -> str:
    """Say what keeps `path` from naming a place on the node, such as `must be absolute`; empty when nothing does."""
    if not path.startswith("/"):
        return "must be absolute"
    if ".." in path.split("/"):
        return "must not contain '..'"
    return "must not contain a NUL" if "\0" in path else ""


def is_qualified(name: str) -> bool:
    """Say whether `name` is a qualified name such as `kubernetes.io/nfs`."""
    return _QUALIFIED.fullmatch(name) is not None


def escape(plugin: str) -> str:
    """Give a plugin name as a directory name: each `/` becomes `~`, nothing else is changed."""
    return plugin.replace("/", "~")


def unescape(directory: str) -> str:
    """Give the plugin name of a directory name."""
    return directory.replace("~", "/")


def kubelet_plugin(plugin: str, field: str, driver: str | None) -> str:
    """Give kubelet's name for the plugin of a volume: of its directories, and what its unique name begins with.

    It is the type's own (`plugin`), unless the field names a driver: then it is the same whichever class serves that.
    """
    if field == CSI_FIELD:
        return CSI
    return driver if field == FLEX_FIELD and driver and is_qualified(driver) else plugin


def shared_volume_name(plugin: str, volume: str) -> str:
    """Give the unique name of an attachable or device-mountable volume of a plugin, by kubelet's name for that."""
    return f"{plugin}/{volume}"


def csi_volume_name(driver: str, handle: str) -> str:
    """Give the name of the storage behind a volume of `csi`, as kubelet and the attach-detach controller do."""
    return f"{driver}^{handle}"


def attachment_name(driver: str, handle: str, node: str) -> str:
    """Give the name of the VolumeAttachment by which a controller attaches a volume of `csi` to a node."""
    return f"csi-{hashlib.sha256(f'{handle}{driver}{node}'.encode()).hexdigest()}"


def attachment_of(volume: str, node: str) -> str:
    """Give the name of the VolumeAttachment of a volume by its unique name; empty for one that has none."""
    driver, caret, handle = volume.removeprefix(f"{CSI}/").partition("^")
    return attachment_name(driver, handle, node) if caret and volume.startswith(f"{CSI}/") else ""


def pod_volume_name(plugin: str, pod_uid: str, spec_name: str) -> str:
    """Give the unique name of any other volume: it belongs to one Pod; `plugin` as kubelet names it."""
    return f"{plugin}/{pod_uid}-{spec_name}"


def source_key(field: str, source: Mapping[str, object]) -> str:
    """Give a short text that differs when a volume's type or source differs in what must not change."""
    return source_revision(field, fixed_source(field, source))


def source_revision(field: str, source: Mapping[str, object]) -> str:
    """Give a short text that differs when a volume's type or anything of its source differs."""
    return hashlib.blake2s(field.encode() + msgspec.json.encode(source, order="sorted"), digest_size=12).hexdigest()


def fixed_source(field: str, source: Mapping[str, object]) -> Mapping[str, object]:
    """Give what of a volume's source must stay while its Pod lives: all but the modes of projected files."""
    if field not in _PROJECTED:
        return source
    fixed = _without_modes(source)
    return cast("Mapping[str, object]", fixed)


def _without_modes(value: object) -> object:
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return {key: _without_modes(each) for key, each in items if key not in _MODES}
    if isinstance(value, (list, tuple)):
        return [_without_modes(each) for each in cast("Sequence[object]", value)]
    return value


def default_uid(namespace: str, name: str) -> str:
    """Give the UID of a Pod whose manifest has none: always the same for one namespace and name."""
    return str(uuid.uuid5(_POD_NAMESPACE, f"{namespace}/{name}"))


def claim_uid(namespace: str, name: str) -> str:
    """Give the UID of a claim whose manifest has none: always the same for one namespace and name."""
    return str(uuid.uuid5(_CLAIM_NAMESPACE, f"{namespace}/{name}"))


def ephemeral_claim_uid(pod_uid: str, volume: str) -> str:
    """Give the UID of the claim of a Pod's ephemeral volume: always the same for one Pod and volume."""
    return str(uuid.uuid5(_CLAIM_NAMESPACE, f"{pod_uid}//{volume}"))
