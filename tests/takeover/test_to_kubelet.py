"""Kubelet's volume manager goes on with what volmgrd has mounted, or takes it down; its own gaps are its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

import pytest

from tests.eventually import eventually
from tests.takeover import objects
from tests.takeover.site import MountTable, Site

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]


def leave(site: Site) -> None:
    """Let volmgrd mount everything, as containers use it, and end."""
    site.volmgr.start()
    for name in site.pods:
        site.volmgr.wait(name)
        site.volmgr.volmgr("mounts", name)
    assert site.volmgr.stop() == 0


def test_kubelet_goes_on_with_what_its_pods_have(site: Site, table: MountTable) -> None:
    site.put_pods()
    leave(site)
    site.mark()
    mounts, locks = site.mounts(), site.locks()
    assert len(mounts) == 13
    assert len(locks) == 1
    assert table.changed()
    site.kubelet_mounts()
    assert not table.changed()
    assert site.mounts() == mounts
    assert locks.items() < site.locks().items()  # it has one for each Pod
    site.check_marks()
    site.check_files()
    site.kill_kubelet()


def test_kubelet_takes_everything_down_to_nothing(site: Site) -> None:
    site.put_pods(subpaths=("mem",))
    leave(site)
    (site.volumes()["disk"] / "marker").write_text("disk")
    (site.directory / "marker").write_text("dir")
    assert site.kubelet_clears() == []
    assert (site.mounts(), site.locks(), site.left()) == ({}, {}, [])
    assert (site.directory / "marker").read_text() == "dir"


def leave_by_kubelet(site: Site) -> None:
    """Let kubelet mount everything, and be killed: what it leaves after itself is no fault of ours."""
    site.kubelet_mounts()
    site.kill_kubelet()


@pytest.mark.parametrize("left_by", [leave, leave_by_kubelet])
def test_kubelet_leaves_the_subpath_of_a_host_path_mounted_k_61446(site: Site, left_by: Callable[[Site], None]) -> None:
    site.put_pods()
    left_by(site)
    bind = site.subpath("host")
    assert site.kubelet_clears() == [f"PROBLEM remove {bind}: device or resource busy"]
    assert list(site.mounts()) == [str(bind)]
    assert site.locks() == {}
    pod = site.root / "pods" / objects.SHOP
    empty = [pod / "plugins/kubernetes.io~empty-dir", pod / "volumeDevices/kubernetes.io~local-volume"]
    assert site.left() == sorted(map(str, (bind, *empty)))


def test_kubelet_tries_once_to_unmount_a_local_directory_k_121675(site: Site) -> None:
    site.put_pods(subpaths=("mem",))
    leave(site)
    place = site.path("local-volume", "pv-dir", objects.GUEST)
    user = os.open(place, os.O_RDONLY)

    def let_go_after_a_refusal() -> None:
        try:
            eventually(lambda: "target is busy" in site.kubelet_log(), lambda: f"a refusal in {site.kubelet_log()}")
        finally:
            os.close(user)

    problems = site.kubelet_clears(let_go_after_a_refusal)
    assert problems == [f"PROBLEM {place}: still mounted"]
    assert "could not be reconstructed" in site.kubelet_log()
    assert list(site.mounts()) == [str(place)]
    assert site.kubelet_clears() == []  # until its next start
    assert (site.mounts(), site.locks(), site.left()) == ({}, {}, [])


def test_a_root_that_was_handed_back_is_left_alone_once_our_records_are_gone(site: Site, table: MountTable) -> None:
    site.put_pods()
    leave(site)
    site.mark()
    site.kubelet_mounts()
    site.kill_kubelet()
    site.forget_volmgr()
    site.remove_pods()
    mounts = site.mounts()
    table.changed()
    node = site.volmgr
    node.start(ready=False)
    eventually(lambda: "adopt" in node.volmgr("doctor", code=1).stdout)
    plan = node.json("plan", code=None)["operations"]
    assert plan
    assert all(each["delayed"] for each in plan)
    assert not table.changed()
    assert site.mounts() == mounts
    site.check_marks()
    assert node.stop() == 0


def test_kubelet_takes_down_a_git_repo_that_it_would_not_make(site: Site) -> None:
    address = site.repository()
    site.volmgr.put("clone.json", objects.pod("clone", "uid-clone", {"code": {"gitRepo": {"repository": address}}}))
    site.volmgr.start()
    site.volmgr.wait("clone")
    assert (site.path("git-repo", "code", "uid-clone") / "repository/file").read_text() == "content"
    assert site.volmgr.stop() == 0
    assert site.kubelet_clears() == []
    assert (site.mounts(), site.left()) == ({}, [])


def test_kubelet_leaves_what_it_has_no_type_for_as_it_is(site: Site) -> None:
    """That is why those are drained first: `docs/takeover.md`."""
    lacking = ("kubernetes.io~cephfs", "example.com~third-party", "vendor~flex-driver")
    places = [site.root / "pods" / f"uid-{number}" / "volumes" / name / "v" for number, name in enumerate(lacking)]
    for place in places:
        place.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
        (place / "marker").write_text("kept")
    mounts = site.mounts()
    assert site.kubelet_clears() == [f"PROBLEM {place}: still mounted" for place in places]
    assert site.mounts() == mounts
    assert [(place / "marker").read_text() for place in places] == ["kept"] * 3
