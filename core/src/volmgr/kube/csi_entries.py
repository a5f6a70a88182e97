"""What a CSINode and its Node say of CSI drivers, and what they are to say. Pure: documents in, documents out.

Behaviour: `pkg/volume/csi/nodeinfomanager` of kubelet 1.37.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import cast

from volmgr import in_tree
from volmgr.kube.documents import items, mapping
from volmgr.kube.resources import CSI_NODES
from volmgr.model.driver_info import DriverInfo

Document = dict[str, object]

MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
"""The annotation that names the in-tree types which CSI drivers serve; the attach-detach controller reads it."""
MIGRATED_PLUGINS = tuple(sorted(in_tree.MIGRATED.values()))
"""Those of kubelet 1.37, in the order of the annotation."""
NODE_IDS = "csi.volume.kubernetes.io/nodeid"
"""The annotation of the Node with its ids by driver, JSON."""


def migrated_plugins(served: Collection[str]) -> tuple[str, ...]:
    """Give the in-tree types whose volumes are served as csi: those whose field no installed type serves itself."""
    return tuple(sorted(name for field, name in in_tree.MIGRATED.items() if field not in served))


def in_process_drivers(names: Iterable[str], node_name: str) -> tuple[DriverInfo, ...]:
    """Give what CSI drivers that are installed classes say: they call the node by its name."""
    return tuple(DriverInfo(name=name, node_id=node_name) for name in sorted(names))


def is_owned(document: Document, node_name: str, node_uid: str) -> bool:
    """Say whether a CSINode belongs to this Node, and not to an earlier one of its name."""
    return any(
        (owner.get("kind"), owner.get("name"), owner.get("uid")) == ("Node", node_name, node_uid)
        for owner in items(_metadata(document).get("ownerReferences"))
    )


def new_csi_node(node_name: str, node_uid: str, migrated: Sequence[str] = MIGRATED_PLUGINS) -> Document:
    """Give a CSINode without drivers."""
    return {
        "apiVersion": CSI_NODES.api_version,
        "kind": CSI_NODES.kind,
        "metadata": {
            "name": node_name,
            "annotations": {MIGRATED: ",".join(migrated)} if migrated else {},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node_name, "uid": node_uid}],
        },
        "spec": {"drivers": []},
    }


def csi_node_steps(
    document: Document,
    drivers: Iterable[DriverInfo],
    gone: Collection[str],
    migrated: Sequence[str] = MIGRATED_PLUGINS,
) -> Sequence[Document]:
    """Give what a CSINode is to be, one state after the other; nothing when it is right.

    Two, where an entry changes its node id or topology: the server takes that only as one that goes and one that comes.
    Entries of others stay.
    """
    wanted = {each.name: each for each in drivers}
    before = items(mapping(document.get("spec")).get("drivers"))
    fixed = {
        str(entry.get("name"))
        for entry in before
        if (info := wanted.get(str(entry.get("name")))) is not None and not _is_same_place(entry, info)
    }
    last = _with_drivers(document, _entries(before, wanted, gone), migrated)
    steps = [last]
    if fixed:
        kept = [dict(entry) for entry in before if entry.get("name") not in fixed]
        steps.insert(0, _with_drivers(document, kept, migrated))
    return [] if last == document else steps


def _entries(
    before: Sequence[Mapping[str, object]], wanted: Mapping[str, DriverInfo], gone: Collection[str]
) -> list[Document]:
    kept = [_updated(entry, wanted.get(str(entry.get("name")))) for entry in before if entry.get("name") not in gone]
    there = {entry.get("name") for entry in kept}
    return [*kept, *(_entry(info) for name, info in sorted(wanted.items()) if name not in there and name not in gone)]


def _updated(entry: Mapping[str, object], info: DriverInfo | None) -> Document:
    if info is None:
        return dict(entry)
    count = mapping(entry.get("allocatable")).get("count")
    return dict(entry) if _is_same_place(entry, info) and count == info.count else _entry(info)


def _is_same_place(entry: Mapping[str, object], info: DriverInfo) -> bool:
    keys = cast("Sequence[object]", entry.get("topologyKeys") or ())
    return entry.get("nodeID") == info.node_id and set(keys) == set(info.topology)


def _entry(info: DriverInfo) -> Document:
    entry: Document = {"name": info.name, "nodeID": info.node_id, "topologyKeys": sorted(info.topology)}
    if info.count is not None:
        entry["allocatable"] = {"count": info.count}
    return entry


def _with_drivers(document: Document, drivers: list[Document], migrated: Sequence[str]) -> Document:
    after = copy.deepcopy(document)
    metadata = cast("Document", after.setdefault("metadata", {}))
    annotations = cast("Document", metadata.setdefault("annotations", {}))
    said = str(annotations.get(MIGRATED) or "")
    if not migrated:
        annotations.pop(MIGRATED, None)
    elif set(said.split(",")) != set(migrated):
        annotations[MIGRATED] = ",".join(migrated)
    spec = cast("Document", after.setdefault("spec", {}))
    if drivers != (spec.get("drivers") or []):
        spec["drivers"] = drivers
    return after


def collisions(node: Document, drivers: Iterable[DriverInfo]) -> Mapping[str, str]:
    """Say, by driver, which label of the Node says something else than its topology; the first of two drivers wins."""
    labels = dict(mapping(_metadata(node).get("labels")))
    found: dict[str, str] = {}
    for info in drivers:
        for key, value in sorted(info.topology.items()):
            if labels.get(key, value) != value:
                found[info.name] = (
                    f"csi driver {info.name} says that the node is in {key}={value}, and its label is"
                    f" {key}={labels[key]}; remove the label, or correct the driver"
                )
        if info.name not in found:
            labels |= info.topology
    return found


def node_patch(node: Document, drivers: Iterable[DriverInfo], gone: Collection[str]) -> Document:
    """Give the merge patch that lets a Node name its ids and have its topology; empty when it does.

    It holds only for the Node as it was read: a new id of another driver is not lost.
    """
    annotations, labels = (mapping(_metadata(node).get(field)) for field in ("annotations", "labels"))
    ids = {name: value for name, value in _ids(annotations).items() if name not in gone}
    topology: dict[str, str] = {}
    for info in drivers:
        ids[info.name] = info.node_id
        topology |= info.topology
    changes: Document = {}
    if ids != _ids(annotations):
        changes["annotations"] = {NODE_IDS: json.dumps(ids, sort_keys=True, separators=(",", ":")) if ids else None}
    new = {key: value for key, value in topology.items() if labels.get(key) != value}
    if new:
        changes["labels"] = new
    if not changes:
        return {}
    return {"metadata": {"resourceVersion": _metadata(node).get("resourceVersion"), **changes}}


def _ids(annotations: Mapping[str, object]) -> Mapping[str, object]:
    try:
        return mapping(json.loads(str(annotations.get(NODE_IDS) or "{}")))
    except ValueError:  # damaged: kubelet would give up; written anew it is right for the drivers that there are
        return {}


def _metadata(document: Mapping[str, object]) -> Mapping[str, object]:
    return mapping(document.get("metadata"))
