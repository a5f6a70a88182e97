"""volmgrd takes over what kubelet's volume manager has mounted, and then takes it down."""

from __future__ import annotations

import pytest

from tests.eventually import eventually
from tests.takeover import objects
from tests.takeover.site import MountTable, Site

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]


def test_what_kubelet_has_mounted_stays_as_it_is_and_goes_with_its_pods(site: Site, table: MountTable) -> None:
    site.put_pods()
    site.kubelet_mounts()
    site.mark()
    site.kill_kubelet()
    mounts, locks = site.mounts(), site.locks()
    assert len(mounts) == 13
    assert len(locks) == 2  # one for each Pod
    assert table.changed()

    node = site.volmgr
    node.start(ready=False)
    eventually(lambda: set(node.uids()) == {objects.SHOP, objects.GUEST})
    assert "adopt" in node.volmgr("wait", "shop", "--timeout", "500ms", code=1).stderr
    node.volmgr("adopt")
    for name in site.pods:
        node.wait(name)
    node.volmgr("mounts", "shop")
    assert not table.changed(), node.log_text()
    assert (site.mounts(), site.locks()) == (mounts, locks)
    site.check_marks()
    site.check_files()

    node.put("login.json", objects.secret(password="two"))
    eventually(lambda: (site.volumes()["login"] / "password").read_text() == "two")
    eventually(lambda: (site.volumes()["all"] / "password").read_text() == "two")
    site.check_files(password="two")

    site.remove_pods()
    for name in site.pods:
        node.volmgr("wait", name, "--for", "unmounted")
    eventually(lambda: (site.mounts(), site.locks(), site.left()) == ({}, {}, []), lambda: f"the end of {site.left()}")
    assert (site.directory / "marker").read_text() == "dir"
    assert (site.host_path / "marker").read_text() == "host"
    assert not node.json("orphans")["orphans"]
    node.stop()
