"""What the contract suite tries emptyDir with: each medium, with and without a limit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from volmgr.plugin import ObjectMeta, Pod, PodSpec, Quantity, ResourceRequirements
from volmgr.testing import Sample
from volmgr_emptydir.plugin import EmptyDirSource


def samples(top: Path) -> Iterator[object]:
    """Give sources, and the Pod that huge pages need."""
    del top
    yield EmptyDirSource()
    yield EmptyDirSource(medium="Memory", size_limit=Quantity.parse("4Mi"))
    huge = ResourceRequirements(requests={"hugepages-2Mi": Quantity.parse("2Mi")})
    yield Sample(
        source=EmptyDirSource(medium="HugePages"),
        pod=Pod(metadata=ObjectMeta(name="huge", uid="uid-huge"), spec=PodSpec(resources=huge)),
    )
