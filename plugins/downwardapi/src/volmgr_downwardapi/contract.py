"""What the contract suite tries downwardAPI with: fields, resources, and nothing at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from volmgr.plugin import Container, DownwardFile, FieldRef, ResourceFieldRef
from volmgr.testing import Sample, pod
from volmgr_downwardapi.plugin import DownwardApiSource


def samples(top: Path) -> Iterator[object]:
    """Give sources, and a Pod with the container that they name."""
    del top
    items = (
        DownwardFile(path="about/name", field_ref=FieldRef(field_path="metadata.name")),
        DownwardFile(path="about/labels", field_ref=FieldRef(field_path="metadata.labels"), mode=0o400),
        DownwardFile(path="cpu", resource_field_ref=ResourceFieldRef(resource="limits.cpu", container_name="main")),
    )
    yield Sample(
        source=DownwardApiSource(items=items, default_mode=0o440), pod=pod(containers=(Container(name="main"),))
    )
    yield DownwardApiSource()
