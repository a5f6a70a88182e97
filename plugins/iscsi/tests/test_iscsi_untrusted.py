"""What Pods, storages and damaged files say of iscsi: it harms nobody else, and is never taken for more than it is."""

import json

import pytest
from plugins.iscsi.tests.iscsi_site import IQN, Site
from plugins.iscsi.tests.test_iscsi import volume

from volmgr.plugin import SpecError
from volmgr_iscsi.iscsiadm import Offer, offers
from volmgr_iscsi.plugin import Iscsi
from volmgr_iscsi.portals import Portal

DAMAGE: tuple[dict[str, object], ...] = (
    {"Portals": ["a b"]},
    {"Portals": ["10.0.0.1:99999"]},
    {"Portals": [5, None]},
    {"Lun": "-1"},
    {"Lun": "99999999999999999999"},
    {"Iqn": "../../x"},
    {"Iqn": ""},
    {"Iface": "../../x", "InitiatorName": "x"},
    {"InitIface": "a/b"},
)
"""What may stand in a file of a connection instead of what belongs there."""


@pytest.fixture
def site() -> Site:
    made = Site()
    made.initiator.map(made.target, 1, "36001405bb")
    return made


def a_file_of_the_pod(site: Site, content: bytes) -> None:
    """Let a Pod write what is called like our file into its volume."""
    shared = volume(name="a").set_up(site.host).device_target(site.host)
    assert shared is not None
    assert site.host.mounts.is_mount_point(shared)
    site.host.put(shared / "iscsi.json", content)


@pytest.mark.parametrize("content", [b"x" * (2 << 20), b"{", b'{"Portals":["a b"],"Iqn":"x","Lun":"0"}'])
def test_a_file_that_a_pod_writes_into_its_volume_keeps_no_other_volume_away(site: Site, content: bytes) -> None:
    a_file_of_the_pod(site, content)
    volume(name="b", lun=1).set_up(site.host)
    assert len(Iscsi().devices(site.host)) == 2


def test_a_pod_does_not_say_how_its_volume_is_connected(site: Site) -> None:
    lie = {"VolName": "lie", "Portals": ["10.0.0.1:3260", "10.6.6.6:3260"], "Iqn": IQN, "Lun": "0"}
    a_file_of_the_pod(site, json.dumps(lie).encode())
    (found,) = Iscsi().devices(site.host)
    assert found.spec is not None
    assert (found.spec.name, found.spec.source.portals) == ("a", ())


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_beside_a_mount_leaves_the_name_of_the_directory(site: Site, damage: dict[str, object]) -> None:
    ready = volume(name="a").set_up(site.host)
    shared = ready.device_target(site.host)
    assert shared is not None
    site.host.mounts.unmount(shared)
    body = json.loads(site.host.content(shared / "iscsi.json"))
    site.host.put(shared / "iscsi.json", json.dumps(body | damage).encode())
    other = volume(name="b", lun=1).set_up(site.host)
    assert len(Iscsi().devices(site.host)) == 2
    for each in (other, ready):
        each.unmount_device(site.host)
    assert site.is_clean


def test_what_cannot_be_read_beside_one_mount_is_told_and_others_are_found(site: Site) -> None:
    ready = volume(name="a").set_up(site.host)
    shared = ready.device_target(site.host)
    assert shared is not None
    site.host.mounts.unmount(shared)
    site.host.files.remove_file(shared / "iscsi.json")
    site.host.mkdir(shared / "iscsi.json")
    volume(name="b", lun=1).set_up(site.host)
    unread, found = Iscsi().devices(site.host)
    assert (unread.spec, "iscsi.json" in unread.problem) == (None, True)
    assert found.spec is not None


@pytest.mark.parametrize(
    "damage",
    [
        {"foreign": ["a b"]},
        {"foreign": "10.0.0.1"},
        {"missing": 5},
        {"tries": None},
        {"target_portal": "a/b"},
        *({"connection": {"Portals": ["10.0.0.1:3260"], "Iqn": IQN, "Lun": "0"} | each} for each in DAMAGE),
    ],
)
def test_a_damaged_record_is_none(site: Site, damage: dict[str, object]) -> None:
    ready = volume(name="a").set_up(site.host)
    records = site.host.paths.state / "iscsi/connections"
    (name,) = site.host.files.names(records)
    body = json.loads(site.host.content(records / name))
    site.host.put(records / name, json.dumps(body | damage).encode())
    other = volume(name="b", lun=1).set_up(site.host)
    assert len(Iscsi().devices(site.host)) == 2
    for each in (other, ready):
        each.unmount_device(site.host)
    assert site.is_clean


@pytest.mark.parametrize("rest", ["a\0b", "a\x1bb", "a\x85b", "a\u2028b", "\ud800", "x" * 220])
def test_a_name_of_what_nobody_sees_or_of_too_much_is_refused(rest: str) -> None:
    for of in (volume(iqn=f"iqn.2026-01.io.test:{rest}"), volume(initiator_name=f"iqn.2026-01.io.test:{rest}")):
        with pytest.raises(SpecError, match="is no iSCSI name"):
            of.plugin.check(of.spec, None)


@pytest.mark.parametrize(
    "portal",
    [
        "a\0b",
        "a\x1b:3260",
        "a\x7f",
        "-p",
        "\u2028",
        "a" * 300,
        "[::1",
        "::1]",
        "1:2:3",
        "[a]",
        "[::1%../..]",
        "*",
        "..",
    ],
)
def test_a_portal_that_is_none_is_refused(portal: str) -> None:
    of = volume(portal)
    with pytest.raises(SpecError, match=r"iscsi\.targetPortal"):
        of.plugin.check(of.spec, None)


def test_an_address_of_a_link_has_its_interface() -> None:
    assert str(Portal.parse("[fe80::1%eth0]:860")) == "[fe80::1%eth0]:860"


def test_an_address_that_a_storage_offers_and_that_is_none_is_left_out() -> None:
    answer = f"10.0.0.1:99999,1 {IQN}\n[::1]:0,1 {IQN}\n10.0.0.2:3260,1 {IQN}\n"
    assert offers(answer) == (Offer(Portal("10.0.0.2"), 1, IQN),)
