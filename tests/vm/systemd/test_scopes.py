"""A daemon that is a service of systemd, which ends whatever a service has started: a volume's server is not in it."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.vm.cephfs.node import CephNode, cephfs
from tests.vm.servers.ceph import Ceph
from tests.vm.servers.guest import LIMIT, load, tell
from tests.vm.servers.node import VmNode

UNIT = "volmgrd-of-a-test.service"


class ServiceNode(CephNode):
    """A daemon that systemd starts, with the defaults of services: `KillMode=control-group`."""

    def argv(self, *options: str) -> list[str]:
        return VmNode.argv(self, *options)

    def start(self, *, ready: bool = True) -> None:
        del ready  # started is ready, with this type of service
        # Without dependencies: they would set up a whole machine, and empty /tmp as at its boot.
        unit = f"""\
[Unit]
DefaultDependencies=no
[Service]
Type=notify
ExecStart={shlex.join(self.argv(*self.options))}
StandardOutput=append:{self.log}
StandardError=append:{self.log}
"""
        file = Path("/run/systemd/system", UNIT)
        if not file.exists():  # systemd would have to read a changed one again, and all others with it
            file.write_text(unit)
        done = subprocess.run(["systemctl", "start", UNIT], timeout=LIMIT, check=False)
        assert done.returncode == 0, tell("systemctl", "show", UNIT) + self.log_text()

    def control_group(self, pid: int) -> str:
        """Give the control group of a process."""
        return Path(f"/proc/{pid}/cgroup").read_text().strip().rpartition("/")[2]


def state() -> str:
    """Give what systemd says of the service."""
    return tell("systemctl", "show", "--property=ActiveState", "--value", UNIT).strip()


def scopes() -> str:
    """Give what systemd has of scopes."""
    return tell("systemctl", "list-units", "--all", "--plain", "--no-legend", "--type=scope")


@pytest.fixture
def node(top: Path) -> Iterator[ServiceNode]:
    load("fuse")
    node = ServiceNode(top, "fuse")
    with Ceph() as ceph:
        secret = Path("/etc/ceph/admin.secret")
        secret.touch(0o600)
        secret.write_text(f"{ceph.key}\n")
        try:
            node.start()
            yield node
            for file in node.manifests.glob("*.json"):
                file.unlink()
            node.until_clean()
        finally:
            tell("systemctl", "stop", UNIT)
            node.clear()


@pytest.mark.timeout(600)  # the cluster starts, too
def test_a_server_of_fuse_outlives_the_service_of_the_daemon_in_a_scope_of_its_own_i82(node: ServiceNode) -> None:
    node.mounted_pod("one", cephfs())
    (server,) = node.servers()
    assert node.control_group(server).endswith(".scope")
    for end in (("stop",), ("kill", "--signal=KILL")):
        tell("systemctl", *end, UNIT)
        eventually(lambda: state() in {"failed", "inactive"}, "the end of the service")
        (node.data("one") / "file").write_text("lives")
        assert node.servers() == [server]
        node.start()
        node.wait("one")
    scope = node.control_group(server)
    described = tell("systemctl", "show", "--property=Description", scope)
    assert described.strip() == "Description=volmgr: ceph-fuse"
    node.remove_pod("one")
    node.until_clean()
    eventually(lambda: scope not in scopes(), "the end of the scope")


def test_the_guest_has_systemd() -> None:
    assert os.path.isdir("/run/systemd/system")
    assert Path("/proc/1/comm").read_text().strip() == "systemd"
