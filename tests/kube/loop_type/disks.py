"""Disks for the lane's Pods: the real controllers and loopcsi's attach them, a package in the daemon mounts them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from signal import SIGKILL
from typing import Any

from tests.eventually import PATIENCE, eventually
from tests.kube.client import Client, Document, Refused
from tests.kube.cluster import Cluster
from tests.kube.drivers import LoopCsi, running_attacher, running_loopcsi
from tests.kube.kube_node import KubeNode, NodeIdentity
from tests.kube.objects import NO_TOKEN, claim, from_claim, persistent_volume
from tests.kube.proxy import Proxy
from tests.side_venv import SideVenv, write_package
from volmgr.kube.resources import ATTACHMENTS, CSI_DRIVERS, NODES, PODS, VOLUMES
from volmgr.model.names import attachment_name

HERE = Path(__file__).parent
ATTACHED, UNATTACHED, SLOW = "loop.test.volmgr", "unattached.test.volmgr", "slow.test.volmgr"
"""Drivers: one that a controller attaches for, one that needs none, one whose controller does not run."""


def environment(top: Path) -> SideVenv:
    """Make an environment with the type, and the package that lets a daemon die."""
    venv = SideVenv.make(top / "venv")
    venv.install(HERE / "driver")
    code = (HERE / "death.py").read_text()
    venv.install(write_package(top / "death", "volmgr-test-death", code, 'death = "volmgr_test_death"'))
    return venv


@dataclass(frozen=True)
class Disk:
    """A PersistentVolume of a driver, and the claim that it is for; both have the name of its handle."""

    handle: str
    namespace: str
    driver: str
    node: str

    @property
    def unique(self) -> str:
        """What controllers and node statuses call it."""
        return f"kubernetes.io/csi/{self.driver}^{self.handle}"

    @property
    def attachment(self) -> str:
        """The path of its VolumeAttachment."""
        return ATTACHMENTS.path(name=attachment_name(self.driver, self.handle, self.node))

    @property
    def volume(self) -> Document:
        """Volume `v` of a Pod."""
        return from_claim(self.handle)


class Disks:
    """A node whose Pods have disks."""

    def __init__(self, cluster: Cluster, driver: LoopCsi, node: KubeNode, proxy: Proxy) -> None:
        self.cluster = cluster
        self.proxy = proxy
        self.admin: Client = cluster.admin
        self.driver = driver
        self.node = node
        self.name = node.identity.name
        self.made: list[Disk] = []

    @property
    def path(self) -> str:
        """The path of the Node."""
        return NODES.path(name=self.name)

    def add(
        self,
        namespace: str,
        name: str = "disk",
        driver: str = ATTACHED,
        *,
        image: bool = True,
        **spec: Any,  # noqa: ANN401 - of volume and claim
    ) -> Disk:
        """Let there be a disk, and a claim on it, which the real binder binds."""
        disk = Disk(f"{namespace}-{name}", namespace, driver, self.name)
        if image:
            self.driver.add_volume(disk.handle)
        source = {"driver": driver, "volumeHandle": disk.handle, "volumeAttributes": {"image": str(self.image(disk))}}
        volume = persistent_volume(disk.handle, namespace, disk.handle, csi=source)
        volume["spec"] |= spec
        self.made.append(disk)
        self.admin.create(volume)
        self.admin.create(claim(namespace, disk.handle, **spec))
        return disk

    def image(self, disk: Disk) -> Path:
        """Give the file of a disk."""
        return self.driver.volumes / f"{disk.handle}.img"

    def run(self, disk: Disk, name: str = "web", **spec: Any) -> Document:  # noqa: ANN401 - of the Pod
        """Let a Pod have a disk."""
        return self.node.identity.run_pod(disk.namespace, name, disk.volume, **NO_TOKEN, **spec)

    def mounted(self, disk: Disk, name: str = "web") -> Document:
        """Let a Pod have a disk, and return when it has."""
        made = self.run(disk, name)
        self.node.wait(f"{disk.namespace}/{name}")
        return made

    def delete(self, disk: Disk, name: str = "web") -> None:
        """Remove a Pod at once."""
        self.admin.delete(PODS.path(disk.namespace, name), gracePeriodSeconds=0)

    def place(self, disk: Disk, pod: Mapping[str, Any]) -> Path:
        """Give where a disk is mounted for a Pod."""
        return self.node.volume_of(pod, "kubernetes.io/csi", disk.handle)

    def in_use(self) -> list[str]:
        """Give what the Node's status says."""
        return list(self.admin.get(self.path)["status"].get("volumesInUse") or [])

    def attachment(self, disk: Disk) -> Document | None:
        """Give its VolumeAttachment, if there is one."""
        return self.admin.get(disk.attachment) if self.admin.is_there(disk.attachment) else None

    def loops(self, disk: Disk) -> list[str]:
        """Give the loop devices of a disk."""
        out = subprocess.run(
            ["losetup", "-n", "-O", "NAME", "-j", self.image(disk)], capture_output=True, text=True, check=True
        ).stdout
        return out.split()

    def until_detached(self, disk: Disk) -> None:
        """Return when the controllers have detached a disk, and nothing of it is left here."""
        self.admin.until_gone(disk.attachment)
        assert self.driver.attached_to(disk.handle) == ""
        assert self.loops(disk) == []

    def die_at(self, moment: str) -> None:
        """Let the daemon die before or after its next operation of a kind, such as `after mount`."""
        (self.node.top / "die-at").write_text(moment)

    def restart_to_die_at(self, moment: str) -> None:
        """Start the daemon again; it may die before it is ready."""
        self.die_at(moment)
        command = self.node.command(*self.node.sources(), *self.node.options)
        with (self.node.top / "log").open("a") as log:
            self.node.daemon = subprocess.Popen(command, stderr=log, text=True)

    def until_dead(self) -> None:
        """Return when it has died of that."""
        assert self.node.daemon.wait(PATIENCE) == -SIGKILL
        assert not (self.node.top / "die-at").exists()


def history(admin: Client, path: str, since: str) -> list[tuple[int, str, Document]]:
    """Give what became of an object since a resourceVersion: its versions, in the cluster's order, and how.

    It ends with the object, or with a label that is set on it.
    """
    collection, _, name = path.rpartition("/")
    fence = ""
    if admin.is_there(path):
        fence = admin.patch(path, {"metadata": {"labels": {"seen": since}}})["metadata"]["resourceVersion"]
    found: list[tuple[int, str, Document]] = []
    selector = f"metadata.name={name}"
    with admin.watch(collection, fieldSelector=selector, resourceVersion=since, timeoutSeconds=30) as changes:
        for change in changes:
            version = change.document["metadata"]["resourceVersion"]
            found.append((int(version), change.kind, change.document))
            if version == fence or (not fence and change.kind == "DELETED"):
                return found
    raise AssertionError(f"{path}: its history since {since} has no end")


@contextmanager
def running_disks(cluster: Cluster, name: str, top: Path) -> Generator[Disks]:
    """Run a node with the drivers; controller, attacher and daemon end with it."""
    identity = NodeIdentity.added_to(cluster, name)
    admin = cluster.admin
    with Proxy(cluster.port) as proxy, running_loopcsi(top / "driver", ATTACHED, name, "-attach") as driver:
        drivers = [replace(driver, name=each) for each in (ATTACHED, UNATTACHED, SLOW)]
        for each in drivers:
            admin.create(each.driver_object(attach_required=each.name != UNATTACHED))
        (top / "config").write_text(json.dumps({"backoff_max": "2s", "kubernetes": {"backoff_max": "1s"}}))
        node = KubeNode(
            identity.behind(proxy.url), top, "--config", str(top / "config"), python=environment(top).python
        )
        with running_attacher(cluster, driver), node:
            disks = Disks(cluster, driver, node, proxy)
            yield disks
            settle(disks)
        for each in drivers:
            admin.delete(CSI_DRIVERS.path(name=each.name))
        admin.delete(NODES.path(name=name))


def settle(disks: Disks) -> None:
    """Let the controllers detach what is left, while they still can."""

    def is_gone(disk: Disk) -> bool:
        there = disks.attachment(disk) is not None
        if there and disk.driver == SLOW:  # whose controller would do this
            disks.admin.delete(disk.attachment)
        return not there

    for disk in disks.made:
        eventually(partial(is_gone, disk), f"{disk.handle} is not attached any more")
    for disk in disks.made:
        disks.admin.delete(VOLUMES.path(name=disk.handle))


def refuse_updates(user: str, *resources: str) -> Sequence[Document]:
    """Give what makes an API server refuse a user's changes of these."""
    name = f"refuses-{user.rpartition(':')[2]}"
    version = "admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": list(resources)}
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "who", "expression": f"request.userInfo.username == '{user}'"}],
        "validations": [{"expression": "false", "message": "not now"}],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    metadata = {"name": name}
    return (
        {"apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": policy},
        {"apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata, "spec": binding},
    )


@contextmanager
def refused(disks: Disks, *resources: str) -> Generator[None]:
    """Let the API server refuse the node's changes of its Node (`nodes`) or of its status (`nodes/status`)."""
    direct = disks.cluster.client(disks.cluster.node(disks.name))  # whatever the proxy does
    documents = refuse_updates(disks.node.identity.user, *resources)
    for document in documents:
        disks.admin.create(document)
    sub = "/status" if "nodes/status" in resources else ""

    def is_refused() -> bool:
        try:
            direct.patch(f"{disks.path}{sub}", {"metadata": {"annotations": {"asked": "1"}}})
        except Refused as refusal:
            return "not now" in str(refusal)
        return False

    try:
        eventually(is_refused, "the policy holds")
        yield
    finally:
        for document in documents:
            disks.admin.delete(disks.admin.path(document))
