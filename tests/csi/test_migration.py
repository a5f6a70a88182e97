"""In-tree volumes become what the library of kubelet makes of them, and are led back to the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import Any, cast

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.csi import in_tree_specs as specs
from tests.csi.library import Document, Library, running_library
from volmgr import migration
from volmgr.errors import SpecError
from volmgr.manifest import NoTypes, read_object
from volmgr.manifest.volumes import without_nulls
from volmgr.migration.translation import Provisioning
from volmgr.model.schema import Unknown
from volmgr.model.volume import PersistentVolume

MANY = settings(max_examples=300, deadline=None)
NEEDED = {
    "awsElasticBlockStore": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "azureFile": ("secretName", "shareName"),
    "cinder": ("volumeID",),
    "gcePersistentDisk": ("pdName",),
    "portworxVolume": ("volumeID",),
    "vsphereVolume": ("volumePath",),
}
"""What the API demands of each source; the library sees nothing that the API has refused."""


@pytest.fixture(scope="module")
def library() -> Generator[Library]:
    with running_library() as found:
        yield found


def read(document: Document) -> PersistentVolume:
    found = read_object(document, NoTypes(), unknown=Unknown.ALLOW)
    assert isinstance(found, PersistentVolume)
    return found


def written(pv: PersistentVolume) -> object:
    """Write a volume as the API does, as far as a translation may change it."""
    claim = pv.claim_ref
    return said(
        {
            "metadata": {
                "name": pv.metadata.name,
                "labels": dict(pv.metadata.labels) or None,
                "annotations": dict(pv.metadata.annotations) or None,
            },
            "spec": {
                pv.type: dict(pv.source),
                "accessModes": list(pv.access_modes) or None,
                "nodeAffinity": pv.node_affinity,
                "volumeMode": str(pv.volume_mode),
                "claimRef": claim and {k: v for k in ("namespace", "name") if (v := getattr(claim, k))},
            },
        }
    )


def expected(result: Document) -> object:
    """Give of what the library gave what `written` gives."""
    spec = {"volumeMode": "Filesystem", **result["spec"]}
    metadata = {name: result["metadata"].get(name) for name in ("name", "labels", "annotations")}
    return said({"metadata": metadata, "spec": spec})


def said(document: Document) -> object:
    return without_nulls(document)


def refused_by_api(field: str, source: Document) -> set[str]:
    """Name the fields that the API's validation refuses: what the library makes of them is nobody's concern."""
    wrong = {name for name in NEEDED[field] if not source.get(name)}
    return wrong if 0 <= source.get("partition", 0) <= 255 else {*wrong, "partition"}


def agree(answer: Document, ours: Callable[[], object], theirs: Callable[[Any], object]) -> None:
    """Check that both give the same, or that both refuse."""
    if "error" in answer:
        with pytest.raises(SpecError):
            ours()
    else:
        assert ours() == theirs(answer["result"])


@given(pv=specs.PERSISTENT)
@MANY
def test_a_persistent_volume_becomes_what_the_library_makes_of_it(library: Library, pv: Document) -> None:
    answer = library.ask({"pv": pv})
    found = read(answer["read"]["pv"])
    if wrong := refused_by_api(found.type, pv["spec"][found.type]):
        with pytest.raises(SpecError, match="|".join(wrong)):
            migration.persistent_csi(found)
        return
    agree(answer, lambda: written(migration.persistent_csi(found)), expected)


@given(source=specs.sources(pv=False), namespace=st.sampled_from(("default", "shop", "")))
@MANY
def test_a_volume_of_a_pod_becomes_what_the_library_makes_of_it(
    library: Library, source: tuple[str, Document], namespace: str
) -> None:
    field, value = source
    answer = library.ask({"volume": {"name": "data", field: value}, "namespace": namespace})
    declared = migration.PodVolumeSource(source=answer["read"]["volume"][field], volume="data", namespace=namespace)
    if wrong := refused_by_api(field, value):
        with pytest.raises(SpecError, match="|".join(wrong)):
            migration.inline_csi(field, declared)
        return
    panics = "panic" in answer  # where a policy is named: it looks for it in a PersistentVolume, which there is none
    name = f"{specs.DRIVERS[field]}-{value['volumePath']}" if panics else _name(answer)
    if not _names_a_directory(name):
        with pytest.raises(SpecError, match="no directory can be named"):
            migration.inline_csi(field, declared)
        return
    if panics:
        found = migration.inline_csi(field, declared)
        assert found.source["volumeAttributes"] == {"storagepolicyname": value["storagePolicyName"]}
        return
    agree(answer, lambda: written(migration.inline_csi(field, declared)), expected)


def _name(answer: Document) -> str:
    return answer["result"]["metadata"]["name"] if "result" in answer else "none"


def _names_a_directory(name: str) -> bool:
    """Say whether a directory can have the name that kubelet gives it; only then it is a volume that can be mounted."""
    return name not in {".", ".."} and "\0" not in name and len(name.encode()) <= 255


@given(pv=specs.PERSISTENT_CSI)
@MANY
def test_a_volume_of_csi_is_led_back_to_what_the_library_makes_of_it(library: Library, pv: Document) -> None:
    assume(pv["spec"]["csi"]["volumeHandle"])  # the API demands it
    answer = library.ask({"pv": pv, "back": True})
    found = read(answer["read"]["pv"])
    agree(answer, lambda: written(migration.in_tree(found)), expected)


@given(pv=specs.PERSISTENT)
@MANY
def test_what_became_csi_is_led_back_to_what_the_library_makes_of_it(library: Library, pv: Document) -> None:
    there = library.ask({"pv": pv})
    found = read(there["read"]["pv"])
    assume("result" in there and not refused_by_api(found.type, pv["spec"][found.type]))
    answer = library.ask({"pv": there["result"], "back": True})
    agree(answer, lambda: written(migration.in_tree(migration.persistent_csi(found))), expected)


@given(document=specs.CLASSES)
@MANY
def test_a_class_says_to_the_driver_what_the_library_makes_of_it(library: Library, document: Document) -> None:
    answer = library.ask({"class": document})
    given_class = _provisioning(answer["read"]["class"])
    agree(answer, lambda: migration.provisioning(given_class), _provisioning)


def _provisioning(document: Document) -> Provisioning:
    return Provisioning(
        provisioner=document["provisioner"],
        parameters=document.get("parameters", {}),
        allowed_topologies=tuple(cast("list[Document]", document.get("allowedTopologies", []))),
    )


@given(driver=st.sampled_from((*specs.DRIVERS.values(), "x")), handle=specs.NAMES, node=specs.NODE_IDS)
@example(driver="pd.csi.storage.gke.io", handle="projects/UNSPECIFIED/regions/UNSPECIFIED/disks/d", node="i")
@MANY
def test_a_handle_is_completed_as_the_library_does(library: Library, driver: str, handle: str, node: str) -> None:
    answer = library.ask({"driver": driver, "handle": handle, "node": node})
    agree(answer, lambda: migration.repaired_handle(driver, handle, node), str)


def test_the_library_knows_as_many_types_as_we_do(library: Library) -> None:
    for field, driver in specs.DRIVERS.items():
        answer = library.ask({"driver": driver, "handle": "projects/p/zones/z/disks/d", "node": ""})
        assert answer["result"] == "projects/p/zones/z/disks/d", field
    assert re.fullmatch(".*could not find.*", library.ask({"driver": "x", "handle": "h"})["error"])
