"""What `system:node:NAME` may do: its own Pods, and what they name."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.kube.client import Document, Refused
from tests.kube.cluster import Cluster
from tests.kube.kube_node import NodeIdentity
from volmgr.kube.resources import CERTIFICATE_REQUESTS, PODS, SECRETS, SERVICE_ACCOUNTS, TRUST_BUNDLES

AUDIENCE = "vault"
SIGNER = "lane.example/signer"
CERTIFICATE = {"signerName": SIGNER, "keyType": "ECDSAP256", "credentialBundlePath": "bundle.pem"}
TOKEN = {"serviceAccountToken": {"audience": AUDIENCE, "path": "token", "expirationSeconds": 600}}


def secret_volume(name: str) -> dict[str, object]:
    return {"name": "v", "secret": {"secretName": name}}


def add_secret(cluster: Cluster, namespace: str, name: str) -> str:
    metadata = {"namespace": namespace, "name": name}
    cluster.admin.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"key": name}})
    return SECRETS.path(namespace, name)


def test_a_node_reads_and_watches_its_own_pods_only(make_node: Callable[[], NodeIdentity], namespace: str) -> None:
    own, other = make_node(), make_node()
    own.run_pod(namespace, "mine")
    other.run_pod(namespace, "theirs")
    mine, theirs = ({"fieldSelector": f"spec.nodeName={node.name}"} for node in (own, other))
    assert [pod["metadata"]["name"] for pod in own.client.items(PODS.path(), **mine)] == ["mine"]
    with own.client.watch(PODS.path(), **mine) as changes:
        assert next(changes).document["metadata"]["name"] == "mine"
    for everything in (theirs, {}):
        with pytest.raises(Refused, match="403 Forbidden"):
            own.client.get(PODS.path(), **everything)
        with pytest.raises(Refused, match="403 Forbidden"), own.client.watch(PODS.path(), **everything):
            pass
    with pytest.raises(Refused, match="403 Forbidden"):
        own.client.get(PODS.path(namespace, "theirs"))


def test_a_node_reads_and_watches_the_secrets_of_its_own_pods_only(
    cluster: Cluster, make_node: Callable[[], NodeIdentity], namespace: str
) -> None:
    own, other = make_node(), make_node()
    mine, theirs = (add_secret(cluster, namespace, name) for name in ("mine", "theirs"))
    assert not own.client.may_get(mine)
    own.run_pod(namespace, "a", secret_volume("mine"))
    other.run_pod(namespace, "b", secret_volume("theirs"))
    own.until_graphed(mine)
    other.until_graphed(theirs)
    with own.client.watch(SECRETS.path(namespace), fieldSelector="metadata.name=mine") as changes:
        assert next(changes).document["metadata"]["name"] == "mine"
    assert not own.client.may_get(theirs)
    for query in ({"fieldSelector": "metadata.name=theirs"}, {}):
        with pytest.raises(Refused, match="403 Forbidden"), own.client.watch(SECRETS.path(namespace), **query):
            pass


def test_a_node_gets_tokens_for_its_own_pods_and_for_audiences_that_their_volumes_name(
    cluster: Cluster, make_node: Callable[[], NodeIdentity], namespace: str
) -> None:
    own, other = make_node(), make_node()
    volume = {"name": "v", "projected": {"sources": [TOKEN]}}
    mine, theirs = own.run_pod(namespace, "mine", volume), other.run_pod(namespace, "theirs", volume)
    own.until_graphed(SERVICE_ACCOUNTS.path(namespace, "default"))
    token = request_token(own, namespace, mine, AUDIENCE)
    review = cluster.admin.create(
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "metadata": {"name": ""},
            "spec": {"token": token, "audiences": [AUDIENCE]},
        }
    )
    assert review["status"]["authenticated"]
    assert review["status"]["user"]["extra"]["authentication.kubernetes.io/pod-name"] == ["mine"]
    for pod, audience in ((mine, "other"), (theirs, AUDIENCE), (None, AUDIENCE)):
        with pytest.raises(Refused, match="403 Forbidden"):
            request_token(own, namespace, pod, audience)


def request_token(node: NodeIdentity, namespace: str, pod: Mapping[str, Any] | None, audience: str) -> str:
    """Ask for a token of the default service account, bound to a Pod."""
    spec: Document = {"audiences": [audience]}
    if pod:
        names = {each: pod["metadata"][each] for each in ("name", "uid")}
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", **names}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = node.client.post(SERVICE_ACCOUNTS.path(namespace, "default", "token"), request)
    return str(answer["status"]["token"])


def test_a_service_account_s_kubeconfig_is_that_service_account(cluster: Cluster, namespace: str) -> None:
    client = cluster.client(cluster.service_account(namespace, "default"))
    review = client.create(
        {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {"name": ""}}
    )
    assert review["status"]["userInfo"]["username"] == f"system:serviceaccount:{namespace}:default"


def test_a_node_watches_trust_bundles_and_asks_for_certificates_of_its_own_pods(
    cluster: Cluster, make_node: Callable[[], NodeIdentity], namespace: str
) -> None:
    own, other = make_node(), make_node()
    bundle = {"trustBundle": (cluster.state / "pki/ca.crt").read_text()}
    kind = {"apiVersion": TRUST_BUNDLES.api_version, "kind": TRUST_BUNDLES.kind}
    cluster.admin.create({**kind, "metadata": {"name": namespace}, "spec": bundle})
    try:
        assert own.client.get(TRUST_BUNDLES.path(name=namespace))["spec"] == bundle
        with own.client.watch(TRUST_BUNDLES.path(), fieldSelector=f"metadata.name={namespace}") as changes:
            assert next(changes).document["spec"] == bundle
    finally:
        cluster.admin.delete(TRUST_BUNDLES.path(name=namespace))
    volume = {"name": "v", "projected": {"sources": [{"podCertificate": CERTIFICATE}]}}
    mine, theirs = own.run_pod(namespace, "mine", volume), other.run_pod(namespace, "theirs", volume)
    own.until_graphed(SERVICE_ACCOUNTS.path(namespace, "default"))
    request = certificate_request(cluster, own, mine)
    asked = own.client.create(request)
    assert asked["spec"]["podUID"] == mine["metadata"]["uid"]
    own.until_graphed(CERTIFICATE_REQUESTS.path(namespace, asked["metadata"]["name"]))
    with pytest.raises(Refused, match="403 Forbidden"):
        own.client.create(certificate_request(cluster, other, theirs))


def certificate_request(cluster: Cluster, node: NodeIdentity, pod: Mapping[str, Any]) -> dict[str, Any]:
    metadata, account = pod["metadata"], pod["spec"]["serviceAccountName"]
    stub = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    signed = stub.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    known = cluster.admin.get(SERVICE_ACCOUNTS.path(metadata["namespace"], account))
    return {
        "apiVersion": CERTIFICATE_REQUESTS.api_version,
        "kind": CERTIFICATE_REQUESTS.kind,
        "metadata": {"namespace": metadata["namespace"], "name": f"for-{metadata['name']}"},
        "spec": {
            "signerName": SIGNER,
            "podName": metadata["name"],
            "podUID": metadata["uid"],
            "serviceAccountName": account,
            "serviceAccountUID": known["metadata"]["uid"],
            "nodeName": node.name,
            "nodeUID": cluster.admin.get(f"/api/v1/nodes/{node.name}")["metadata"]["uid"],
            "stubPKCS10Request": base64.b64encode(signed.public_bytes(serialization.Encoding.DER)).decode(),
        },
    }
