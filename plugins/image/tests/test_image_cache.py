"""The cache of images: what is shared, what leaves, and what a kill leaves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from plugins.image.tests.images import STATE, TOP, host_with, one, read, refused, volume

from volmgr.plugin import Quantity
from volmgr.testing import FakeHost, Fault, FaultHost, Killed, Volume, When, pod
from volmgr_image.contract import layout, tar, write
from volmgr_image.settings import ImageSettings
from volmgr_image.source import ImageSource


def content(host: FakeHost) -> int:
    return len(host.files.names(STATE / "content"))


def images(host: FakeHost, count: int, size: int = 1000) -> list[Volume]:
    """Put layouts of so many images of one size there, each for a Pod of its own."""
    for number in range(count):
        write(host, TOP / f"layout{number}", layout([tar({"file": bytes([number]) * size})]))
    return [volume(f"oci:{TOP}/layout{number}:v1", of=pod(f"pod{number}")) for number in range(count)]


def test_unused_images_leave_least_recently_used_first_above_the_limit() -> None:
    host = FakeHost().with_settings(ImageSettings(image_cache_limit=Quantity.of(2000)))
    first, second, third = images(host, 3)
    for each in (first, second):
        each.mount(host)
    second.unmount(host)
    first.unmount(host)  # used later than the second one
    assert content(host) == 2
    faulty = FaultHost(host)
    third.mount(faulty)
    assert content(host) == 2
    first.mount(faulty)
    assert faulty.verbs.count("archives.unpack") == 1
    second.mount(faulty)
    assert faulty.verbs.count("archives.unpack") == 2


def test_an_image_in_use_never_leaves() -> None:
    host = FakeHost().with_settings(ImageSettings(image_cache_limit=Quantity.of(0)))
    volumes = images(host, 3)
    for number, each in enumerate(volumes):
        assert read(host, each) == bytes([number]) * 1000
    assert content(host) == 3
    for number, each in enumerate(volumes):
        assert read(host, each) == bytes([number]) * 1000
    for left, each in enumerate(volumes, 1):
        each.unmount(host)
        assert content(host) == 3 - left
    assert host.files.names(STATE / "references") == ()
    refused(
        host, replace(volumes[0], source=ImageSource(reference=f"oci:{TOP}/layout0:v1", pull_policy="Never")), "Never"
    )


def test_nothing_leaves_while_a_claim_cannot_be_read() -> None:
    host = FakeHost().with_settings(ImageSettings(image_cache_limit=Quantity.of(0)))
    first, second = images(host, 2)
    first.mount(host)
    second.mount(host)
    (name,) = host.files.names(STATE / "uses" / first.pod.uid)
    host.put(STATE / "uses" / first.pod.uid / name, b"{")
    second.unmount(host)
    assert content(host) == 2
    first.unmount(host)
    assert content(host) == 0


@pytest.mark.parametrize("when", list(When))
def test_an_eviction_that_is_killed_anywhere_costs_no_image_in_use(when: When) -> None:
    for number in range(1, 200):
        host = FakeHost().with_settings(ImageSettings(image_cache_limit=Quantity.of(1500)))
        used, unused, new = images(host, 3)
        used.mount(host)
        unused.mount(host)
        faulty = FaultHost(host, [Fault.kill(number, when)])
        try:
            unused.unmount(faulty)
        except Killed:
            assert read(host, used) == bytes(1000)
            unused.unmount(host)
            assert read(host, new) == b"\2" * 1000
            assert content(host) == 2
            assert read(host, replace(unused, pod=pod("again"))) == b"\1" * 1000
            continue
        return
    pytest.fail("an unmount made 200 calls")


def test_what_a_killed_unpacking_left_goes_with_the_next_mount_of_another_life() -> None:
    host = host_with(one())
    left = STATE / "work" / "an-earlier-life" / "uid-web.data"
    host.mkdir(left / "image" / "rootfs")
    host.mkdir(left / "auth")
    host.machine.mount(left / "auth", "tmpfs")
    host.put(left / "auth" / "auth.json", b"secret")
    host.mkdir(STATE / "pulls" / "abandoned" / "blobs")
    volume(f"oci:{TOP}/layout:v1").mount(host)
    assert "an-earlier-life" not in host.files.names(STATE / "work")
    assert host.files.names(STATE / "pulls") == ()
    assert len(host.table) == 1


def leaked(host: FakeHost, life: str) -> Path:
    """Leave the mount of a Pod of which no record speaks any more."""
    gone = volume(f"oci:{TOP}/layout:v1", of=pod("gone"))
    path = gone.mount(host).path
    assert path is not None
    marker = STATE / "uses" / "uid-gone" / "data.json"
    fields = json.loads(host.content(marker))
    host.files.remove_tree(STATE / "work")  # nothing was looked through in this life
    host.put(marker, json.dumps({**fields, "life": life or fields["life"]}).encode())
    return path


def test_a_mount_that_nobody_knows_of_any_more_does_not_stay_for_ever() -> None:
    host = host_with(one())
    path = leaked(host, "an-earlier-life")
    volume(f"oci:{TOP}/layout:v1").mount(host)
    assert path not in host.table
    assert host.files.names(STATE / "mounts") == ("uid-web",)
    assert host.files.names(STATE / "uses") == ("uid-web",)


@pytest.mark.parametrize("record", ["pods/uid-gone.json", "mounts/uid-gone", ""])
def test_a_mount_of_this_life_or_of_a_pod_with_a_record_stays(record: str) -> None:
    host = host_with(one())
    path = leaked(host, "an-earlier-life" if record else "")
    if record:
        host.mkdir(host.paths.state / record)
    volume(f"oci:{TOP}/layout:v1").mount(host)
    assert path in host.table


def test_a_writable_mount_that_a_kill_left_is_made_again() -> None:
    host = host_with(one())
    wanted = volume(f"oci:{TOP}/layout:v1")
    path = wanted.mount(host).path
    assert path is not None
    host.mounts.unmount(path)
    host.machine.bind(TOP, path)
    assert read(host, wanted) == b"1"
    assert "noexec" in host.table[path]
