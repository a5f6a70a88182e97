"""What the contract suite tries configMap with: text and bytes, chosen keys, and a ConfigMap that is not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from volmgr.plugin import ConfigMap, KeyToPath, ObjectMeta
from volmgr.testing import Sample
from volmgr_configmap.plugin import ConfigMapSource

_CONFIG = ConfigMap(
    metadata=ObjectMeta(name="settings"), data={"a.conf": "level: 3\n", "b.conf": "ä"}, binary_data={"c": b"\x00\xff"}
)


def samples(top: Path) -> Iterator[object]:
    """Give sources, and the objects that they refer to."""
    del top
    yield Sample(source=ConfigMapSource(name="settings"), objects=(_CONFIG,))
    items = (KeyToPath(key="a.conf", path="etc/conf.d/a", mode=0o600), KeyToPath(key="c", path="bytes"))
    yield Sample(source=ConfigMapSource(name="settings", items=items, default_mode=0o640), objects=(_CONFIG,))
    yield ConfigMapSource(name="absent", optional=True)
