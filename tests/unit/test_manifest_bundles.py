"""ClusterTrustBundles of manifests: every version, names below a signer, and what is wrong with one."""

from __future__ import annotations

import json

import pytest

from volmgr.manifest import Parsed, parse, recall
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import ClusterTrustBundle, ref_of


def read(name: object = "roots", spec: object = None, version: str = "v1") -> Parsed:
    document = {
        "apiVersion": f"certificates.k8s.io/{version}",
        "kind": "ClusterTrustBundle",
        "metadata": {"name": name, "namespace": "anywhere", "labels": {"live": "yes"}},
        "spec": {"trustBundle": "PEM"} if spec is None else spec,
    }
    return parse(json.dumps(document).encode(), "bundle.json")


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_every_version_is_read_and_none_has_a_namespace(version: str) -> None:
    (item,) = read("example.com:ca:roots", {"signerName": "example.com/ca", "trustBundle": "PEM"}, version).items
    assert isinstance(item.value, ClusterTrustBundle)
    assert (item.value.signer_name, item.value.trust_bundle) == ("example.com/ca", "PEM")
    assert ref_of(item.value) == ObjectRef("ClusterTrustBundle", "", "example.com:ca:roots")
    assert recall(item.raw) == item.value


@pytest.mark.parametrize("name", ["Roots", "a/b", "../x", ":x", "x:", "a::b", "", "a:B:c", "x" * 254])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    (error,) = read(name).errors
    assert error.field == "metadata.name"


def test_a_bundle_without_certificates_is_refused() -> None:
    (error,) = read(spec={"signerName": "example.com/ca"}).errors
    assert (error.field, error.problem) == ("spec.trustBundle", "is missing")
