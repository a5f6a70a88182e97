"""What volumes of fc are called, and whether that can be read back."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volmgr.plugin import NotReconstructible, SpecError
from volmgr_fc import names
from volmgr_fc.names import FibreChannelSource

WWNS = ("50050768030539b6", "50050768030539b7")

wwns = st.lists(st.text("0123456789abcdefABCDEF", min_size=16, max_size=16), min_size=1, max_size=4).map(tuple)
ports = st.builds(FibreChannelSource, target_wwns=wwns, lun=st.integers(0, 255))
wwids = st.lists(
    st.text("0123456789abcdefABC -_.", min_size=1, max_size=40) | st.just("A-lun-7"), min_size=1, max_size=3
)
disks = st.builds(FibreChannelSource, wwids=wwids.map(tuple))


# Names and directories


def test_the_name_is_a_list_as_go_prints_it() -> None:
    assert names.volume_name(FibreChannelSource(target_wwns=WWNS, lun=0)) == f"[{WWNS[0]} {WWNS[1]}]:0"
    assert names.volume_name(FibreChannelSource(target_wwns=WWNS[:1], lun=12)) == f"[{WWNS[0]}]:12"
    assert names.volume_name(FibreChannelSource(wwids=("A", "B"))) == "[A B]"


def test_ports_with_a_lun_come_before_wwids() -> None:
    both = FibreChannelSource(target_wwns=WWNS, lun=0, wwids=("A",))
    assert (names.volume_name(both), names.directory(both)) == (f"[{WWNS[0]} {WWNS[1]}]:0", "-".join(WWNS) + "-lun-0")
    assert names.names_of(both) == FibreChannelSource(target_wwns=WWNS, lun=0)
    assert names.volume_name(FibreChannelSource(target_wwns=WWNS, wwids=("A",))) == "[A]"


def test_kubelet_s_directories_are_read() -> None:
    assert names.of_directory("50050768030539b6-50050768030539b7-lun-0") == FibreChannelSource(target_wwns=WWNS, lun=0)
    assert names.of_directory("A-B") == FibreChannelSource(wwids=("A", "B"))


@pytest.mark.parametrize("name", ["50050768030539b6-lun-x", "50050768030539b6-lun-", "a-lun--1", "a-lun-²"])
def test_a_directory_without_a_number_is_nobody_s(name: str) -> None:
    with pytest.raises(NotReconstructible, match="no number after -lun-"):
        names.of_directory(name)


@given(ports)
def test_ports_and_lun_are_read_back_as_they_were(source: FibreChannelSource) -> None:
    assert names.of_directory(names.directory(source)) == source
    assert names.says_all(source)


@given(disks)
def test_wwids_are_read_back_as_they_were_or_it_is_known_that_they_are_not(source: FibreChannelSource) -> None:
    directory = names.directory(source)
    if any("-" in wwid for wwid in source.wwids):
        assert not names.says_all(source)
    else:
        assert names.of_directory(directory) == source


# What is refused


@pytest.mark.parametrize(
    ("source", "field"),
    [
        (FibreChannelSource(), "targetWWNs and lun, or wwids"),
        (FibreChannelSource(lun=0), "targetWWNs and lun, or wwids"),
        (FibreChannelSource(target_wwns=WWNS), r"fc\.lun is missing"),
        (FibreChannelSource(target_wwns=(WWNS[0], "0x50050768030539b7"), lun=0), r"fc\.targetWWNs\[1\]"),
        (FibreChannelSource(target_wwns=("50:05:07:68:03:05:39:b7",), lun=0), r"fc\.targetWWNs\[0\]"),
        (FibreChannelSource(target_wwns=("",), lun=0), r"fc\.targetWWNs\[0\]"),
        (FibreChannelSource(target_wwns=WWNS, lun=-1), r"fc\.lun -1"),
        (FibreChannelSource(target_wwns=WWNS, lun=1 << 32), r"fc\.lun 4294967296"),
        (FibreChannelSource(wwids=("A", "")), r"fc\.wwids\[1\]"),
        (FibreChannelSource(wwids=("../../etc",)), r"fc\.wwids\[0\]"),
        (FibreChannelSource(wwids=("..",)), r"fc\.wwids\[0\]"),
        (FibreChannelSource(wwids=("volumeDevices",)), r"fc\.wwids\[0\]"),
        (FibreChannelSource(wwids=("a\nb",)), r"fc\.wwids\[0\]"),
        (FibreChannelSource(target_wwns=WWNS * 8, lun=0), "too long"),
    ],
)
def test_what_names_no_disk_is_refused_by_its_field(source: FibreChannelSource, field: str) -> None:
    with pytest.raises(SpecError, match=field):
        names.check(source)


def test_what_names_a_disk_is_taken() -> None:
    for source in (
        FibreChannelSource(target_wwns=("500A0981891B8DC5",), lun=16640),
        FibreChannelSource(wwids=("3600508b400105e210000900000490000", "S0QEMU QEMU HARDDISK")),
    ):
        names.check(source)


# Links of udev

BY_PATH = (
    "pci-0000:41:00.0-fc-0x500a0981891b8dc5-lun-0",
    "pci-0000:41:00.0-fc-0x500a0981891b8dc5-lun-12",
    "pci-0000:41:00.0-fc-0x500a0981891b8dc5-lun-1",
    "pci-0000:41:00.0-fc-0x500a0981891b8dc5-lun-1-part1",
    "fc-0x5005076810213b32-lun-2",
    "ccw-0.0.f5a0-fc-0x5005076300c562e1-lun-0x4010400000000000",
    "pci-0000:00:1f.2-ata-1",
)


def links(*wwns: str, lun: int) -> tuple[str, ...]:
    return names.path_links(FibreChannelSource(target_wwns=wwns, lun=lun), BY_PATH)


def test_a_link_is_of_exactly_this_port_and_lun() -> None:
    assert links("500a0981891b8dc5", lun=0) == BY_PATH[:1]
    assert links("500a0981891b8dc5", lun=1) == BY_PATH[2:3]
    assert links("5005076810213b32", lun=2) == BY_PATH[4:5]
    assert links("5005076810213b32", lun=0) == ()
    assert links("00a0981891b8dc5", lun=0) == ()


def test_any_of_the_ports_will_do_in_whatever_case() -> None:
    assert links("5005076810213B32", "500A0981891B8DC5", lun=2) == BY_PATH[4:5]
    upper = names.path_links(
        FibreChannelSource(target_wwns=("500a0981891b8dc5",), lun=0), ["PCI-0000:41:00.0-FC-0x500A0981891B8DC5-LUN-0"]
    )
    assert len(upper) == 1


def test_large_luns_are_those_that_the_kernel_counts() -> None:
    assert links("5005076300c562e1", lun=0x40004010) == BY_PATH[5:6]
    assert links("5005076300c562e1", lun=0x4010) == ()


WWID = "3600508b400105e210000900000490000"


@pytest.mark.parametrize(
    ("wwid", "link"),
    [
        (WWID, f"scsi-{WWID}"),
        (WWID.upper(), f"scsi-{WWID}"),
        (WWID, f"dm-uuid-mpath-{WWID}"),
        (WWID, "wwn-0x600508b400105e210000900000490000"),
        ("600508b400105e210000900000490000", f"scsi-{WWID}"),
        ("SQEMU  QEMU HARDDISK 1", "scsi-SQEMU__QEMU_HARDDISK_1"),
    ],
)
def test_a_disk_is_found_by_its_wwid_with_underscores_for_spaces(wwid: str, link: str) -> None:
    source = FibreChannelSource(wwids=(wwid,))
    assert names.id_links(source, [link]) == (link,)
    for other in (f"{link}-part1", f"{link}0", link[:-1], "scsi-3600508b400105e210000900000490001"):
        assert names.id_links(source, [other]) == ()


def test_wwids_are_not_looked_for_where_ports_are_named() -> None:
    both = FibreChannelSource(target_wwns=WWNS, lun=0, wwids=(WWID,))
    assert names.id_links(both, [f"scsi-{WWID}"]) == ()
    assert names.path_links(FibreChannelSource(wwids=(WWID,)), BY_PATH) == ()


@given(st.text())
def test_a_wwid_is_a_word_and_no_pattern(wwid: str) -> None:
    found = names.id_links(FibreChannelSource(wwids=(wwid,)), [f"scsi-{WWID}"])
    assert not found or re.sub(r"\s", "_", wwid).lower() in {WWID, WWID[1:]}
