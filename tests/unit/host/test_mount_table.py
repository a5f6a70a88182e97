"""The mount table's text, from any bytes that the kernel may write."""

import os
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from volmgr.host import mount_table

ROW = rb"36 35 98:0 /mnt1 /mnt/parent rw,noatime master:1 - ext3 /dev/root rw,errors=continue"
names = st.binary(min_size=1, max_size=40).filter(lambda name: not {0, ord("/")} & set(name) and name != b".")
paths = st.lists(names, min_size=1, max_size=5).map(lambda parts: b"/" + b"/".join(parts))


def row(target: bytes, *, root: bytes = b"/", number: int = 1, source: bytes = b"tmpfs") -> bytes:
    fields = (root, mount_table.escape(target), mount_table.escape(source))
    return b"%d 1 0:7 %s %s rw,relatime - tmpfs %s rw\n" % (number, *fields)


def test_each_field_of_a_row_is_read() -> None:
    entry = mount_table.parse_line(ROW)
    assert entry is not None
    assert (entry.mount_id, entry.parent_id, entry.device, entry.root) == (36, 35, "98:0", "/mnt1")
    assert (entry.target, entry.fstype, entry.source) == (Path("/mnt/parent"), "ext3", "/dev/root")
    assert entry.options == ("rw", "noatime")
    assert entry.super_options == ("rw", "errors=continue")
    assert entry.propagation == ("master:1",)
    assert not entry.deleted
    assert not entry.read_only


def test_all_optional_fields_are_propagation() -> None:
    entry = mount_table.parse_line(b"1 0 0:1 / /a ro shared:5 master:2 propagate_from:3 unbindable - tmpfs t ro")
    assert entry is not None
    assert entry.propagation == ("shared:5", "master:2", "propagate_from:3", "unbindable")
    assert entry.read_only


def test_a_bind_of_a_deleted_file_is_marked_and_its_root_is_the_path_it_had() -> None:
    entry = mount_table.parse_line(row(b"/a", root=b"/x\\040y//deleted").strip())
    assert entry is not None
    assert entry.deleted
    assert entry.root == "/x y"


def test_space_tab_newline_backslash_and_hash_are_decoded() -> None:
    entry = mount_table.parse_line(rb"1 0 0:1 / /a\040b\011c\012d\134e\043f\1040 rw - tmpfs x\040y rw")
    assert entry is not None
    assert entry.target == Path("/a b\tc\nd\\e#fD0")
    assert entry.source == "x y"


def test_a_backslash_that_begins_no_escape_stays() -> None:
    assert mount_table.unescape(rb"a\9\04\777\040") == rb"a\9\04\777 "


@given(paths)
def test_any_path_survives_the_round_trip(path: bytes) -> None:
    data = row(b"/before") + row(path) + row(b"/after")
    targets = [os.fsencode(entry.target) for entry in mount_table.parse(data)]
    assert targets == [b"/before", path, b"/after"]


@given(paths, paths)
def test_looking_for_one_path_finds_the_same_as_reading_everything(path: bytes, other: bytes) -> None:
    data = row(other, number=1) + row(path, number=2) + row(path, number=3) + row(path + b"x", number=4)
    wanted = Path(os.fsdecode(path))
    found = mount_table.at(data, wanted)
    assert found == [entry for entry in mount_table.parse(data) if entry.target == wanted][-1]


@given(st.integers(0, len(ROW)), st.integers(0, len(ROW)))
def test_a_torn_row_is_left_out_or_read_but_never_an_error(start: int, end: int) -> None:
    torn = ROW[start:end]
    entries = mount_table.parse(row(b"/before") + torn + b"\n" + row(b"/after"))
    assert entries[0].target == Path("/before")
    assert entries[-1].target == Path("/after")


@given(st.binary(max_size=300))
def test_no_bytes_at_all_make_the_parser_fail(data: bytes) -> None:
    mount_table.parse(data)
    mount_table.at(data, Path("/a"))
    mount_table.below(data, Path("/"))


def test_mounts_below_come_deepest_first_and_the_newest_first_on_one_path() -> None:
    order = [b"/r", b"/r/a", b"/r/a/b", b"/r/a", b"/rx", b"/other"]
    data = b"".join(row(path, number=number) for number, path in enumerate(order))
    assert [entry.mount_id for entry in mount_table.below(data, Path("/r"))] == [2, 3, 1, 0]


def test_everything_is_below_the_root() -> None:
    data = row(b"/") + row(b"/a")
    assert [entry.target for entry in mount_table.below(data, Path("/"))] == [Path("/a"), Path("/")]


def test_a_path_lies_on_the_newest_mount_above_it() -> None:
    table = mount_table.parse(row(b"/", number=1) + row(b"/a", number=2) + row(b"/a", number=3) + row(b"/ab", number=4))
    found = mount_table.containing(table, Path("/a/b"))
    assert found is not None
    assert found.mount_id == 3


def test_one_path_among_ten_thousand_mounts_is_found_quickly() -> None:
    data = b"".join(row(b"/var/lib/volmgr/pods/%08d/volumes/x" % number, number=number) for number in range(10_000))
    wanted = Path("/var/lib/volmgr/pods/00009999/volumes/x")
    best = min(timed(data, wanted) for _ in range(5))
    assert best < 0.1  # 7 ms on the machine of docs/performance.md


def timed(data: bytes, wanted: Path) -> float:
    before = time.process_time()
    assert mount_table.at(data, wanted) is not None
    return time.process_time() - before


def test_of_each_mount_it_is_seen_whether_it_is_read_only_and_what_process_serves_it() -> None:
    rows = [
        b"2 1 0:7 / /a/tmp rw - tmpfs t rw",
        b"3 1 0:8 / /a/ro ro shared:5 - ext4 /dev/sda rw",
        b"4 1 0:41 / /a/fuse rw master:2 - fuse.sshfs host: rw,user_id=0",
        b"5 1 0:42 / /a/block rw - fuseblk /dev/sdb ro",
        b"6 1 0:9 / /a/control rw - fusectl fusectl rw",
        b"7 1 0:43 / /b/fuse rw - fuse x rw",
    ]
    assert mount_table.seen_below(b"\n".join(rows), Path("/a")) == {
        "/a/tmp": (False, ""),
        "/a/ro": (True, ""),
        "/a/fuse": (False, "0:41"),
        "/a/block": (True, "0:42"),
        "/a/control": (False, ""),
    }
