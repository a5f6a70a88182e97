"""Volumes that a network brings stay mounted when a node changes from kubelet to volmgrd, and back."""

from __future__ import annotations

from tests.eventually import eventually
from tests.takeover import objects
from tests.vm.takeover.site import Site


def test_what_kubelet_has_mounted_stays_as_it_is_and_goes_with_its_pod(site: Site) -> None:
    site.put_shop()
    site.kubelet_mounts()
    (site.place / "marker").write_text("kept")
    site.kill_kubelet()
    mounts, has = site.mount_ids(), site.storage.left()

    site.start(ready=False)
    eventually(lambda: set(site.uids()) == {objects.SHOP}, "the Pod")
    site.volmgr("adopt")
    site.wait("shop")
    assert site.mount_ids() == mounts, site.log_text()
    assert site.storage.left() == has
    assert (site.place / "marker").read_text() == "kept"

    site.remove_pod("shop")
    site.until_nothing_is_left()
    assert site.stop() == 0


def test_kubelet_goes_on_with_what_volmgrd_has_mounted_and_takes_it_down_to_nothing(site: Site) -> None:
    site.put_shop()
    site.start()
    site.wait("shop")
    (site.place / "marker").write_text("kept")
    assert site.stop() == 0
    mounts, has = site.mount_ids(), site.storage.left()

    site.kubelet_mounts()
    assert site.mount_ids() == mounts
    assert site.storage.left() == has
    assert (site.place / "marker").read_text() == "kept"
    site.kill_kubelet()

    assert site.kubelet_clears() == [], site.kubelet_log()
    assert (site.mounts(), site.left()) == ({}, [])
    site.until_nothing_is_left()
