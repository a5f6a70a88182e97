"""The lane itself: what kube mode's tests rely on is so of the servers that they run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.kube.client import Refused
from tests.kube.cluster import Cluster
from tests.kube.kube_node import NodeIdentity
from volmgr.kube.resources import CERTIFICATE_REQUESTS, NODES, PODS, TRUST_BUNDLES

ORPHAN = """
import sys
from tests.kube.cluster import Cluster
with Cluster() as cluster:
    print(cluster.state, *cluster.pids, flush=True)
    sys.stdin.read()
"""


def test_the_servers_are_of_the_release_that_is_pinned(cluster: Cluster) -> None:
    pins = (Path(__file__).parent / "tools/go.mod").read_text()
    release = next(line.split()[1] for line in pins.splitlines() if line.startswith("\tk8s.io/kubernetes "))
    assert cluster.admin.get("/version")["gitVersion"] == release


def test_the_kinds_that_volumes_need_are_served_without_feature_gates(cluster: Cluster) -> None:
    served = {each["name"] for each in cluster.admin.get("/apis/certificates.k8s.io/v1")["resources"]}
    assert {TRUST_BUNDLES.plural, CERTIFICATE_REQUESTS.plural} <= served


def test_the_audit_log_says_what_a_node_asked_for_and_what_it_was_told(
    cluster: Cluster, kube_node: NodeIdentity
) -> None:
    mark = cluster.audit.mark()
    kube_node.client.get(NODES.path(name=kube_node.name))
    with pytest.raises(Refused):
        kube_node.client.get(PODS.path())
    with kube_node.client.watch(PODS.path(), fieldSelector=f"spec.nodeName={kube_node.name}", timeoutSeconds=1):
        (watch,) = cluster.requests(after=mark, user=kube_node.user, verb="watch")

    def codes() -> list[tuple[str, str, int]]:
        asked = cluster.requests(after=mark, user=kube_node.user)
        return [(request.verb, request.resource, request.code) for request in asked]

    told = [("get", "nodes", 200), ("list", "pods", 403), ("watch", "pods", 200)]
    eventually(lambda: codes() == told, "the answers are in the audit log")
    assert f"spec.nodeName%3D{kube_node.name}" in watch.uri
    assert cluster.requests(after=cluster.audit.mark()) == []


def test_nothing_is_left_of_a_cluster_whose_process_was_killed() -> None:
    test = subprocess.Popen(
        [sys.executable, "-c", ORPHAN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert test.stdout is not None
    state, *pids = test.stdout.readline().split()
    assert len(pids) == 3
    assert all(Path(state).name in Path(f"/proc/{pid}/cmdline").read_text() for pid in pids)
    test.kill()
    test.communicate()
    eventually(lambda: not any(is_alive(int(pid)) for pid in pids), "the servers end")
    eventually(lambda: not Path(state).exists(), "the directory goes")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
