"""Objects of an API server: followed while a Pod refers to them, awaited while unknown, missing when it has none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.flow.core.probes import Disk, Plain, Script, claim_of, config_map, needs, plain, storage
from volmgr.config import Config
from volmgr.model.meta import ObjectRef
from volmgr.model.volume import Facets, Reference
from volmgr.plugins import Plugins
from volmgr.report.plan import plan_report
from volmgr.report.pods import status
from volmgr.report.why import summary_for_timeout, why
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod
from volmgr_configmap.plugin import ConfigMapVolume
from volmgr_projected.plugin import Projected
from volmgr_secret.plugin import SecretVolume

KINDS = ("ConfigMap", "Secret", "PersistentVolumeClaim", "PersistentVolume", "CSIDriver", "ClusterTrustBundle")
KUBERNETES = "kubernetes"
LOGIN = ObjectRef("Secret", "default", "login")
SETTINGS = ObjectRef("ConfigMap", "default", "settings")
CLAIM = ObjectRef("PersistentVolumeClaim", "default", "d1")
VOLUME = ObjectRef("PersistentVolume", "", "pv-d1")
BUNDLES = ObjectRef("ClusterTrustBundle", "", "")
TRUST: dict[str, Any] = {
    "name": "v",
    "projected": {
        "sources": [{"clusterTrustBundle": {"signerName": "example.com/ca", "labelSelector": {}, "path": "ca.crt"}}]
    },
}
READING = "it is being read from the API server"


@pytest.fixture
def config() -> Config:
    return Config(bind_claims=False)


@pytest.fixture
def plugins(plain_script: Script, disk_script: Script) -> Plugins:
    return plugins_of(Plain(plain_script), Disk(disk_script), SecretVolume(), ConfigMapVolume(), Projected())


@pytest.fixture
def node(host: FakeHost, plugins: Plugins, config: Config) -> TestNode:
    """A node of a cluster, whose Pods were read."""
    node = TestNode(host, plugins, config, sources=(KUBERNETES,), fetched_kinds=KINDS)
    node.sources_ready()
    return node


def secret(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": data}


def secret_volume(*, optional: bool = False) -> dict[str, object]:
    return {"name": "s", "secret": {"secretName": "login", "optional": optional}}


def config_volume(*, optional: bool = False) -> dict[str, object]:
    return {"name": "c", "configMap": {"name": "settings", "optional": optional}}


def bundle(name: str, signer: str) -> dict[str, Any]:
    return {
        "apiVersion": "certificates.k8s.io/v1beta1",
        "kind": "ClusterTrustBundle",
        "metadata": {"name": name},
        "spec": {
            "signerName": signer,
            "trustBundle": "-----BEGIN CERTIFICATE-----\nMAAA\n-----END CERTIFICATE-----\n",
        },
    }


def text_of(node: TestNode, name: str) -> str:
    (report,) = why(node.world, name)
    return report.text


def lack(node: TestNode, *refs: ObjectRef) -> None:
    """Let the API server say that it has none of these."""
    for ref in refs:
        node.registry.absent_object(ref)
    node.settle()


def leave_unknown(node: TestNode, ref: ObjectRef, why: str) -> None:
    """Let it not be known whether there is such an object."""
    node.registry.await_object(ref, why)
    node.settle()


def files(node: TestNode, uid: str, plugin: str, name: str) -> dict[str, bytes | None]:
    """Give what containers see in a volume."""
    target = node.host.paths.volume(uid, plugin, name)
    names = [each for each in node.host.files.names(target) if not each.startswith("..")]
    return {each: node.host.atomic.read(target, each) for each in names}


def test_an_object_is_referred_to_from_its_first_pod_to_its_last(node: TestNode) -> None:
    assert node.referred == set()
    node.serve(pod("a", secret_volume(), uid="ua"), pod("b", secret_volume(), config_volume(), uid="ub"))
    assert node.referred == {LOGIN, SETTINGS}
    node.serve_no_more(pod("b"))
    assert node.referred == {LOGIN}
    node.serve_no_more(pod("a"))
    assert node.referred == set()
    assert node.world.awaited_objects == {}


def test_a_pod_in_place_of_another_does_not_have_its_objects_read_anew(node: TestNode) -> None:
    node.serve(pod("a", secret_volume(), uid="ua"))
    node.serve(secret(user="u"))
    node.referred.clear()
    node.registry.withdraw(KUBERNETES, "Pod/default/a")
    node.serve(pod("a", secret_volume(), uid="ub"))
    assert node.referred == set()
    assert node.is_mounted("ub")


def test_what_a_pod_refers_to_is_awaited_until_the_server_shows_it(node: TestNode) -> None:
    node.serve(pod("web", secret_volume(), uid="u1"))
    assert not node.is_mounted("web")
    assert node.world.awaited_objects == {LOGIN: READING}
    assert text_of(node, "web").endswith(f"volume s (secret): not mounted; waits for Secret default/login: {READING}")
    leave_unknown(node, LOGIN, "https://10.0.0.1:6443 does not answer: connection refused")
    assert "waits for Secret default/login: https://10.0.0.1:6443 does not answer: connection ref" in text_of(
        node, "web"
    )
    assert node.warnings() == ()
    node.serve(secret(user="u"))
    assert node.is_mounted("web")
    assert files(node, "u1", SecretVolume.name, "s") == {"user": b"u"}
    assert node.world.awaited_objects == {}


def test_an_object_that_the_server_has_not_is_missing_and_no_manifest_is_asked_for(node: TestNode) -> None:
    node.serve(pod("web", secret_volume(), uid="u1"))
    lack(node, LOGIN)
    assert "waits for Secret default/login: the API server has none" in text_of(node, "web")
    assert "manifests" not in text_of(node, "web")
    node.serve(secret(user="u"))
    assert node.is_mounted("web")


def test_an_optional_object_is_missing_only_when_the_server_has_none(node: TestNode) -> None:
    node.serve(pod("web", secret_volume(optional=True), uid="u1"))
    leave_unknown(node, LOGIN, "secrets login is forbidden")
    node.advance(600)
    assert not node.is_mounted("web")
    assert "waits for Secret default/login: secrets login is forbidden" in text_of(node, "web")
    lack(node, LOGIN)
    assert node.is_mounted("web")
    assert files(node, "u1", SecretVolume.name, "s") == {}


def test_what_is_known_stays_known_whatever_becomes_of_the_server(node: TestNode) -> None:
    node.serve(pod("web", secret_volume(optional=True), uid="u1"))
    node.serve(secret(user="u"))
    leave_unknown(node, LOGIN, "https://10.0.0.1:6443 does not answer")
    assert node.world.awaited_objects == {}
    assert node.is_mounted("web")


def test_an_optional_object_whose_source_lets_go_of_it_is_not_yet_absent(node: TestNode) -> None:
    node.serve(pod("web", secret_volume(optional=True), uid="u1"))
    node.serve(secret(user="u"))
    node.serve_no_more(secret())
    assert node.world.awaited_objects == {LOGIN: READING}
    assert files(node, "u1", SecretVolume.name, "s") == {"user": b"u"}
    lack(node, LOGIN)
    assert files(node, "u1", SecretVolume.name, "s") == {}
    assert node.is_mounted("web")


def test_a_claim_and_its_volume_are_awaited_and_no_error_of_the_pod(node: TestNode, disk_script: Script) -> None:
    pv, claim = storage("d1")
    node.serve(pod("web", claim_of("data", "d1"), uid="u1"))
    assert node.referred == {CLAIM}
    assert f"volume data (persistentVolumeClaim): not mounted; waits for {CLAIM}: {READING}" in text_of(node, "web")
    assert "failed to process volumes=[data]" in summary_for_timeout(node.world, "web")
    assert [each.waits_for for each in plan_report(node.world).waiting] == [f"{CLAIM}: {READING}"]
    node.serve(claim)
    assert node.referred == {CLAIM, VOLUME}
    assert f"waits for {VOLUME}: {READING}" in text_of(node, "web")
    assert node.warnings() == ()
    assert disk_script.calls == []
    node.serve(pv)
    assert node.is_mounted("web")


def test_a_claim_that_the_server_has_not_is_an_error_of_the_pod(node: TestNode) -> None:
    node.serve(pod("web", claim_of("data", "d1"), uid="u1"))
    lack(node, CLAIM)
    assert node.warnings() == (f"{CLAIM} does not exist: the API server has none",)
    node.serve(storage("d1")[1])
    lack(node, VOLUME)
    assert f"{VOLUME}, to which {CLAIM} is bound, does not exist: the API server has none" in node.warnings()


def test_what_an_object_says_of_the_volume_itself_is_awaited_before_the_volume_is_known(
    node: TestNode, plain_script: Script
) -> None:
    driver = ObjectRef("CSIDriver", "", "example.com")
    plain_script.references = (Reference(driver, optional=True),)
    node.serve(pod("web", plain("v"), uid="u1"))
    assert len(node.world.desired) == 0
    assert f"volume v (plainProbe): not mounted; waits for {driver}: {READING}" in text_of(node, "web")
    lack(node, driver)
    assert node.is_mounted("web")


def test_all_of_a_kind_are_awaited_together_when_some_are_selected(node: TestNode) -> None:
    node.serve(pod("web", TRUST, uid="u1"))
    assert node.referred == {BUNDLES}
    assert f"{READING}" in text_of(node, "web")
    node.serve(bundle("example.com:ca:1", "example.com/ca"))
    node.advance(60)
    assert not node.is_mounted("web")
    lack(node, BUNDLES)
    assert node.is_mounted("web")


def test_none_of_a_kind_is_missing_by_what_selects_it(node: TestNode) -> None:
    node.serve(pod("web", TRUST, uid="u1"))
    lack(node, BUNDLES)
    assert "waits for ClusterTrustBundle of signer example.com/ca" in text_of(node, "web")
    assert "the API server has none" in text_of(node, "web")
    node.serve(bundle("example.com:ca:1", "example.com/ca"))
    assert node.is_mounted("web")


def test_a_variable_of_an_optional_object_is_unknown_until_the_object_is_known(node: TestNode) -> None:
    web = pod("web", plain("v"), uid="u1")
    web["spec"]["containers"][0] |= {
        "env": [
            {"name": "SUB", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "sub", "optional": True}}},
        ],
        "volumeMounts": [{"name": "v", "mountPath": "/v", "subPathExpr": "x$(SUB)"}],
    }
    node.serve(web)
    (mount,) = node.mounts("web").containers[0].mounts
    assert f"waits for {SETTINGS}: {READING}" in mount.problem
    node.serve(config_map("settings", sub="y"))
    (mount,) = node.mounts("web").containers[0].mounts
    assert (mount.problem, mount.source[-1:]) == ("", "0")


# --- a start without the server ---


def test_a_node_that_starts_without_its_server_mounts_what_it_knew_and_says_how_old_that_is(node: TestNode) -> None:
    node.serve(pod("web", config_volume(), claim_of("data", "d1"), uid="u1"))
    node.serve(config_map("settings", color="blue"), *storage("d1"))
    assert node.is_mounted("web")
    node.advance(3600)
    node.start()
    node.source_lost(KUBERNETES, "https://10.0.0.1:6443 does not answer")
    assert node.is_mounted("web")
    assert node.world.awaited_objects == {}
    assert node.world.objects[SETTINGS].read_at == 1_000_000.0
    for ref in (SETTINGS, CLAIM, VOLUME):
        assert f"  {ref} is as of 1970-01-12T13:46:40.000Z\n" in text_of(node, "web") + "\n"
    node.sources_ready()
    assert "as of" not in text_of(node, "web")


def test_a_secret_is_not_kept_and_its_pod_waits_for_the_server_with_all_it_has_mounted(node: TestNode) -> None:
    node.serve(pod("web", secret_volume(optional=True), uid="u1"))
    node.serve(secret(user="u"))
    node.start()
    node.source_lost(KUBERNETES, "no answer")
    leave_unknown(node, LOGIN, "no answer; see checkpoint_secrets")
    assert "waits for Secret default/login: no answer; see checkpoint_secrets" in text_of(node, "web")
    assert files(node, "u1", SecretVolume.name, "s") == {"user": b"u"}


def test_trust_bundles_of_before_the_start_are_all_that_are_known(node: TestNode) -> None:
    node.serve(pod("web", TRUST, uid="u1"))
    node.serve(bundle("example.com:ca:1", "example.com/ca"))
    lack(node, BUNDLES)
    node.advance(1)
    node.start()
    leave_unknown(node, BUNDLES, "no answer")
    assert node.is_mounted("web")


def test_what_an_api_server_says_in_a_status_outlives_a_restart(node: TestNode) -> None:
    pv, claim = storage("d1")
    node.serve(pod("web", claim_of("data", "d1"), uid="u1"))
    node.serve(pv, claim | {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}})
    node.advance(1)
    node.start()
    node.reconciler.step()
    item: Any = node.world.objects[CLAIM].item
    assert (item.phase, str(item.status_capacity["storage"])) == ("Bound", "1Gi")


def test_an_outage_is_said_once_and_shown_with_the_time_of_the_last_contact(node: TestNode) -> None:
    node.serve(pod("web", plain("v"), uid="u1"))
    for _ in range(2):
        node.registry.state(KUBERNETES, ready=True, problem="connection refused", contact=node.now)
        node.settle()
    since = "since 1970-01-12T13:46:40.000Z"
    line = f"source kubernetes is out of contact {since}, and what it said stands: connection refused"
    assert status(node.world).contact == (line,)
    assert line in text_of(node, "web")
    assert node.warnings() == ("source kubernetes: connection refused",)
    assert node.world.sources_ready
    node.registry.state(KUBERNETES, ready=True, contact=node.now + 1)
    node.settle()
    assert status(node.world).contact == ()
    assert text_of(node, "web") == "Pod default/web (u1): mounted"


def test_an_object_that_was_only_read_again_is_no_reason_to_look_at_a_pod(node: TestNode, plain_script: Script) -> None:
    plain_script.references = needs("settings")
    plain_script.facets = Facets(remount=True)
    node.serve(pod("web", plain("v"), uid="u1"))
    settings = config_map("settings", color="blue")
    settings["metadata"]["resourceVersion"] = "7"
    node.serve(settings)
    assert plain_script.count("mount") == 1
    looked: list[str] = []
    plain_script.pure = lambda: looked.append("facets")
    node.advance(60)
    node.serve(settings)
    assert node.world.objects[SETTINGS].read_at == 1_000_060.0
    assert looked == []
