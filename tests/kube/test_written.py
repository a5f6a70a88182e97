"""What a node writes and is given, as `system:node:NAME`: tokens, certificates, events, conditions, CSINode."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import Queue
from typing import Any, TypeVar

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tests.eventually import PATIENCE, eventually
from tests.kube.cluster import Cluster
from tests.kube.kube_node import NodeIdentity
from tests.unit.kube.signing import condition, issued
from volmgr.errors import OperationError, SpecError, TransientError
from volmgr.host.interface import Certificate, CertificateWish
from volmgr.kube.api import Api, configured
from volmgr.kube.certificates import KubeCertificates
from volmgr.kube.conditions import TYPE, MountedCondition, PodConditions
from volmgr.kube.csi_entries import MIGRATED, NODE_IDS
from volmgr.kube.csi_node import CsiNodes
from volmgr.kube.event_texts import About, Regarding
from volmgr.kube.events import EventSink
from volmgr.kube.resources import CERTIFICATE_REQUESTS, CSI_NODES, NODES, PODS, SERVICE_ACCOUNTS
from volmgr.kube.thread import KubeThread
from volmgr.kube.tokens import KubeTokens
from volmgr.model.driver_info import DriverInfo
from volmgr.model.kube import EventsApi, KubeSettings
from volmgr.model.meta import ObjectMeta
from volmgr.model.pod import Pod, PodSpec
from volmgr.report.events import EventLog, Severity

T = TypeVar("T")

HOUR = 3600
SIGNER = "lane.example/mesh"
AUDIENCE = "vault"
TOKEN = {"serviceAccountToken": {"audience": AUDIENCE, "path": "token", "expirationSeconds": 600}}
CERTIFICATE = {"podCertificate": {"signerName": SIGNER, "keyType": "ED25519", "credentialBundlePath": "bundle.pem"}}
PROJECTED = {"name": "v", "projected": {"sources": [TOKEN, CERTIFICATE]}}
WISH = CertificateWish(signer_name=SIGNER, key_type="ED25519")


@dataclass
class Speaker:
    """A node that speaks to the server as itself, from a thread of Kubernetes mode."""

    node: NodeIdentity
    namespace: str
    api: Api
    thread: KubeThread
    appeared: Queue[str]

    @classmethod
    def of(cls, node: NodeIdentity, namespace: str, thread: KubeThread) -> Speaker:
        return cls(node, namespace, configured(node.kubeconfig, KubeSettings()), thread, Queue())

    @property
    def cluster(self) -> Cluster:
        return self.node.cluster

    def run_pod(self, name: str = "web") -> Pod:
        made = self.node.run_pod(self.namespace, name, PROJECTED)
        self.node.until_graphed(SERVICE_ACCOUNTS.path(self.namespace, "default"))
        meta = ObjectMeta(name=name, namespace=self.namespace, uid=made["metadata"]["uid"])
        return Pod(metadata=meta, spec=PodSpec())

    def certificates(self, wall: Callable[[], float] = time.time) -> KubeCertificates:
        return KubeCertificates(
            self.thread, self.api, KubeSettings(), self.node.name, self.appeared.put, wall=wall, spread=lambda: 0.0
        )

    def request(self, number: int = 0) -> dict[str, Any]:
        """Wait for a request of the namespace."""
        path = CERTIFICATE_REQUESTS.path(self.namespace)
        eventually(lambda: len(self.cluster.admin.items(path)) > number, "a PodCertificateRequest")
        found = self.cluster.admin.items(path)
        return sorted(found, key=lambda each: int(each["metadata"]["resourceVersion"]))[number]

    def answer(self, request: dict[str, Any], status: dict[str, Any]) -> None:
        path = CERTIFICATE_REQUESTS.path(self.namespace, request["metadata"]["name"], "status")
        self.cluster.admin.patch(path, {"status": status})


@pytest.fixture
def thread() -> Iterator[KubeThread]:
    running = KubeThread(requests=2)
    running.start()
    yield running
    running.stop()


@pytest.fixture
def speaker(kube_node: NodeIdentity, namespace: str, thread: KubeThread) -> Speaker:
    return Speaker.of(kube_node, namespace, thread)


def retried(what: str, action: Callable[[], T]) -> T:
    """Do it until the server, which hears of its own objects by watches, no longer refuses."""
    given: list[T] = []

    def attempt() -> bool:
        try:
            given.append(action())
        except TransientError:
            raise
        except OperationError:
            return False
        return True

    eventually(attempt, what)
    return given[0]


def obtained(speaker: Speaker, certificates: KubeCertificates, pod: Pod) -> Certificate:
    return retried("a certificate", lambda: certificates.obtain(pod, "v", 1, WISH))


def reviewed(cluster: Cluster, token: str) -> dict[str, Any]:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "metadata": {"name": ""}}
    asked = cluster.admin.create({**review, "spec": {"token": token, "audiences": [AUDIENCE]}})
    return dict(asked["status"])


def test_a_token_is_good_bound_to_its_pod_and_given_again_until_it_is_due(speaker: Speaker) -> None:
    pod, tokens = speaker.run_pod(), KubeTokens(speaker.api, KubeSettings())
    mark = speaker.cluster.audit.mark()
    token = tokens.issue(pod, audience=AUDIENCE, expiration_seconds=600)
    status = reviewed(speaker.cluster, token.value)
    assert status["authenticated"]
    assert status["user"]["extra"]["authentication.kubernetes.io/pod-uid"] == [pod.uid]
    assert token.expires_at - token.issued_at == 600
    assert abs(token.issued_at - time.time()) < PATIENCE
    assert tokens.issue(pod, audience=AUDIENCE, expiration_seconds=600) == token
    restarted = KubeTokens(speaker.api, KubeSettings())
    held = restarted.issue(pod, audience=AUDIENCE, expiration_seconds=600, held=token.value)
    assert held.value == token.value
    asked = speaker.cluster.requests(after=mark, user=speaker.node.user, verb="create")
    assert len([each for each in asked if each.subresource == "token"]) == 1


def test_a_node_gets_no_token_for_a_pod_of_another_node_and_is_told_why(
    speaker: Speaker, make_node: Callable[[], NodeIdentity]
) -> None:
    speaker.run_pod()
    theirs = make_node().run_pod(speaker.namespace, "theirs", PROJECTED)
    pod = Pod(metadata=ObjectMeta(name="theirs", namespace=speaker.namespace, uid=uid_of(theirs)), spec=PodSpec())
    with pytest.raises((OperationError, TransientError), match=rf"the token of pod {speaker.namespace}/theirs"):
        KubeTokens(speaker.api, KubeSettings()).issue(pod, audience=AUDIENCE, expiration_seconds=600)


def test_a_deleted_pod_s_token_is_refused_by_the_server(speaker: Speaker) -> None:
    pod = speaker.run_pod()
    token = KubeTokens(speaker.api, KubeSettings()).issue(pod, audience=AUDIENCE, expiration_seconds=600)
    path = PODS.path(speaker.namespace, "web")
    speaker.cluster.admin.delete(path, gracePeriodSeconds=0)
    eventually(lambda: "error" in reviewed(speaker.cluster, token.value), "the token is refused")


def test_a_certificate_is_requested_awaited_and_replaced(speaker: Speaker) -> None:
    ahead = [0.0]
    pod, certificates = speaker.run_pod(), speaker.certificates(lambda: time.time() + ahead[0])
    with pytest.raises(TransientError, match=rf"waits for signer {SIGNER}") as waits:
        obtained(speaker, certificates, pod)
    request = speaker.request()
    assert request["spec"]["podUID"] == pod.uid
    now = float(int(time.time()))
    speaker.answer(request, issued(request, now, 2 * HOUR, HOUR))
    assert speaker.appeared.get(timeout=PATIENCE) == waits.value.waits_for
    first = obtained(speaker, certificates, pod)
    assert_pair(first)
    assert (first.due_at, first.expires_at) == (now + HOUR, now + 2 * HOUR)
    ahead[0] = HOUR
    assert obtained(speaker, certificates, pod).key == first.key
    second = speaker.request(1)
    speaker.answer(second, issued(second, now, 3 * HOUR, 2 * HOUR))
    speaker.appeared.get(timeout=PATIENCE)
    given = obtained(speaker, certificates, pod)
    assert_pair(given)
    assert given.key != first.key
    assert given.due_at == now + 2 * HOUR


def assert_pair(given: Certificate) -> None:
    key, leaf = load_pem_private_key(given.key, None), x509.load_pem_x509_certificate(given.chain)
    assert key.public_key() == leaf.public_key()


@pytest.mark.parametrize(("kind", "error"), [("Denied", SpecError), ("Failed", OperationError)])
def test_a_signer_that_refuses_is_named_with_its_reason(speaker: Speaker, kind: str, error: type[Exception]) -> None:
    pod, certificates = speaker.run_pod(), speaker.certificates()
    with pytest.raises(TransientError):
        obtained(speaker, certificates, pod)
    speaker.answer(speaker.request(), {"conditions": [condition(kind, "UnsupportedKeyType", "use RSA", time.time())]})
    speaker.appeared.get(timeout=PATIENCE)
    with pytest.raises(error, match=rf"signer {SIGNER} .*UnsupportedKeyType: use RSA"):
        certificates.obtain(pod, "v", 1, WISH)


def test_a_deleted_request_is_made_anew(speaker: Speaker) -> None:
    pod, certificates = speaker.run_pod(), speaker.certificates()
    with pytest.raises(TransientError):
        obtained(speaker, certificates, pod)
    first = speaker.request()["metadata"]["name"]
    user, resource = speaker.node.user, CERTIFICATE_REQUESTS.plural
    eventually(
        lambda: bool(speaker.cluster.requests(user=user, verb="watch", resource=resource)),
        "its requests are watched",
    )
    speaker.cluster.admin.delete(CERTIFICATE_REQUESTS.path(speaker.namespace, first))
    assert speaker.appeared.get(timeout=PATIENCE).endswith(first)
    with pytest.raises(TransientError):
        obtained(speaker, certificates, pod)
    assert speaker.request()["metadata"]["name"] != first


@pytest.mark.parametrize("api", [EventsApi.EVENTS, EventsApi.CORE])
def test_events_of_a_pod_and_of_the_node_are_there_for_everybody(speaker: Speaker, api: EventsApi) -> None:
    made = speaker.node.run_pod(speaker.namespace, "web")
    regarding = Regarding("Pod", speaker.namespace, "web", made["metadata"]["uid"])
    log = EventLog(time.time, 10)
    about = About((regarding,), "data")
    settings = KubeSettings(events=api)
    sink = EventSink(speaker.thread, speaker.api, settings, speaker.node.name, lambda _event: about)
    log.listen(sink.hear)

    def counted(count: int) -> Callable[[], bool]:
        return lambda: [_count(each) for each in events()] == [count]

    def events() -> list[dict[str, Any]]:
        path = f"/api/v1/namespaces/{speaker.namespace}/events"
        return speaker.cluster.admin.items(path, fieldSelector="involvedObject.name=web,reason=FailedMount")

    for count in (1, 2, 3):
        log.record(Severity.WARNING, "FailedMount", "mount: no", pod="x/web", pod_uid=regarding.uid, volume="data")
        eventually(counted(count), f"an event that counts {count}")
    (event,) = events()
    assert event["message"] == 'MountVolume.SetUp failed for volume "data" : no'
    assert (event["type"], event["reportingInstance"]) == ("Warning", speaker.node.name)
    assert event["involvedObject"]["uid"] == regarding.uid
    log.record(Severity.WARNING, "PossibleMemoryBackedVolumesOnDisk", "swap is on", volume="data")
    selector = f"involvedObject.kind=Node,involvedObject.name={speaker.node.name}"
    path = "/api/v1/namespaces/default/events"
    eventually(lambda: bool(speaker.cluster.admin.items(path, fieldSelector=selector)), "an event of the node")


def _count(event: dict[str, Any]) -> int:
    series: dict[str, Any] = event.get("series") or {}
    return int(series.get("count") or event.get("count") or 1)


def test_a_pod_has_the_condition_and_other_conditions_stay(speaker: Speaker) -> None:
    made = speaker.node.run_pod(speaker.namespace, "web")
    path = PODS.path(speaker.namespace, "web")
    other = {"type": "Initialized", "status": "True"}
    speaker.cluster.admin.patch(f"{path}/status", {"status": {"conditions": [other]}})
    regarding = Regarding("Pod", speaker.namespace, "web", made["metadata"]["uid"])
    conditions = PodConditions(speaker.thread, speaker.api, KubeSettings())

    def is_so(status: str, message: str) -> Callable[[dict[str, Any]], bool]:
        def look(document: dict[str, Any]) -> bool:
            found = {each["type"]: each for each in document["status"].get("conditions", [])}
            said = found.get(TYPE, {})
            assert "Initialized" in found
            return (said.get("status"), said.get("message", "")) == (status, message)

        return look

    conditions.say(regarding, MountedCondition(is_mounted=False, message="Secret x is missing"))
    speaker.cluster.admin.until(path, is_so("False", "Secret x is missing"))
    conditions.say(regarding, MountedCondition(is_mounted=True))
    speaker.cluster.admin.until(path, is_so("True", ""))


def test_the_csi_node_has_the_drivers_and_the_node_their_ids_and_topology(speaker: Speaker) -> None:
    name, admin = speaker.node.name, speaker.cluster.admin
    csi = CsiNodes(speaker.thread, speaker.api, KubeSettings(), name)
    csi.start()
    path = CSI_NODES.path(name=name)
    made = admin.until(path, lambda _: True)
    node = admin.get(NODES.path(name=name))
    assert made["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
    ]
    assert "kubernetes.io/gce-pd" in made["metadata"]["annotations"][MIGRATED]
    eventually(lambda: csi.is_ready, "the CSINode is ready")

    zone = {"topology.lane.example/zone": "a"}
    csi.declare(DriverInfo(name="a.lane.example", node_id="i-1", topology=zone, limit=7))
    found = admin.until(path, lambda document: bool(document["spec"]["drivers"]))
    assert found["spec"]["drivers"] == [
        {"name": "a.lane.example", "nodeID": "i-1", "topologyKeys": list(zone), "allocatable": {"count": 7}}
    ]
    metadata = admin.get(NODES.path(name=name))["metadata"]
    assert json.loads(metadata["annotations"][NODE_IDS]) == {"a.lane.example": "i-1"}
    assert metadata["labels"].items() >= zone.items()

    csi.declare(DriverInfo(name="a.lane.example", node_id="i-1", topology=zone, limit=3))
    admin.until(path, lambda document: document["spec"]["drivers"][0]["allocatable"]["count"] == 3)
    csi.declare(DriverInfo(name="a.lane.example", node_id="i-2"))  # the server takes this in two steps only
    admin.until(path, lambda document: [each["nodeID"] for each in document["spec"]["drivers"] or ()] == ["i-2"])
    csi.withdraw("a.lane.example")
    admin.until(path, lambda document: not document["spec"]["drivers"])
    eventually(lambda: csi.problem == "", "nothing is wrong")


def test_a_csi_node_of_an_earlier_node_of_that_name_is_replaced(speaker: Speaker) -> None:
    name, admin = speaker.node.name, speaker.cluster.admin
    default = "/api/v1/namespaces/default"
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid_of(admin.get(NODES.path(name=name)))}
    stranger = {"apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": uid_of(admin.get(default))}
    kind = {"apiVersion": CSI_NODES.api_version, "kind": CSI_NODES.kind}
    left = {**kind, "metadata": {"name": name, "ownerReferences": [stranger]}}
    admin.create({**left, "spec": {"drivers": [{"name": "old.example", "nodeID": "x", "topologyKeys": []}]}})
    csi = CsiNodes(speaker.thread, speaker.api, KubeSettings(), name)
    csi.start()
    path = CSI_NODES.path(name=name)
    made = admin.until(path, lambda document: document["metadata"].get("ownerReferences") == [owner])
    assert made["spec"]["drivers"] in ([], None)


def uid_of(document: dict[str, Any]) -> str:
    return str(document["metadata"]["uid"])
