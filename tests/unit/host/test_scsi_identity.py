"""VPD page 0x83: which of a LUN's names is taken, and how it is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volmgr.host.scsi_identity import as_udev_writes, identity_of

BINARY, ASCII = 1, 2
LUN, PORT, TARGET = 0, 1, 2
NAA_6 = bytes.fromhex("6001405aabbccddee001122334455667")
NAA_5 = bytes.fromhex("5000c500a1b2c3d4")
NAA_3 = bytes.fromhex("33333330000007d0")
EUI = bytes.fromhex("0025385971b01234")
T10 = b"LIO-ORG a               :c0ffee"


def designator(kind: int, data: bytes, *, code_set: int = BINARY, association: int = LUN) -> bytes:
    return bytes([code_set, association << 4 | kind, 0, len(data)]) + data


def page(*designators: bytes) -> bytes:
    body = b"".join(designators)
    return bytes([0, 0x83]) + len(body).to_bytes(2, "big") + body


BEST_FIRST = (
    (designator(3, NAA_6), f"3{NAA_6.hex()}"),
    (designator(3, NAA_5), f"3{NAA_5.hex()}"),
    (designator(3, NAA_3), f"3{NAA_3.hex()}"),
    (designator(2, EUI), f"2{EUI.hex()}"),
    (designator(1, T10, code_set=ASCII), "1LIO-ORG_a_:c0ffee"),
    (designator(8, b"iqn.2026-01.io.test:disk\0\0\0\0", code_set=3), "8iqn.2026-01.io.test:disk"),
)
OTHERS = (
    designator(3, bytes(16), association=PORT),
    designator(8, b"iqn.2026-01.io.test:target", code_set=3, association=TARGET),
    designator(4, b"\0\0\0\1", association=PORT),
    designator(5, b"\0\0\0\1", association=PORT),
    designator(6, b"\0\0\0\1", association=LUN),
    designator(0, b"of the vendor", code_set=ASCII),
    designator(3, b""),
)


def test_the_page_of_lio_gives_the_name_that_udev_gives() -> None:
    found = page(
        designator(1, T10, code_set=ASCII),
        designator(3, NAA_6),
        designator(4, b"\0\0\0\1", association=PORT),
        designator(8, b"iqn.2026-01.io.test:t1,t,0x0001", code_set=3, association=PORT),
    )
    assert identity_of(found) == f"3{NAA_6.hex()}"


@given(st.sets(st.sampled_from(range(len(BEST_FIRST))), min_size=1), st.lists(st.sampled_from(OTHERS)), st.randoms())
def test_the_best_name_of_the_lun_itself_is_taken_in_whatever_order_they_come(
    chosen: set[int], others: list[bytes], random: object
) -> None:
    designators = [*(BEST_FIRST[index][0] for index in chosen), *others]
    random.shuffle(designators)  # type: ignore[attr-defined]
    assert identity_of(page(*designators)) == BEST_FIRST[min(chosen)][1]


@pytest.mark.parametrize("kind", [1, 2, 3])
def test_of_two_names_of_a_kind_that_in_bytes_is_taken_else_the_first(kind: int) -> None:
    letters, data = designator(kind, b"0000000000000001", code_set=ASCII), designator(kind, b"\0\0\0\0\0\0\0\2")
    other = designator(kind, b"\0\0\0\0\0\0\0\3")
    assert identity_of(page(letters, data, other)) == f"{kind}0000000000000002"


@given(st.binary(max_size=80))
def test_a_damaged_page_is_no_identity_rather_than_an_error(data: bytes) -> None:
    identity_of(data)
    identity_of(b"\0\x83" + data)
    identity_of(page(data))


@given(st.integers(min_value=0, max_value=len(page(BEST_FIRST[0][0])) - 1))
def test_a_page_that_was_cut_off_says_nothing(length: int) -> None:
    assert identity_of(page(BEST_FIRST[0][0])[:length]) == ""


def test_another_page_is_not_read_as_this_one() -> None:
    assert identity_of(b"\0\x80" + page(BEST_FIRST[0][0])[2:]) == ""


@pytest.mark.parametrize(
    ("name", "identity"),
    [
        (b"naa.6001405AABBCCDDEE001122334455667", "36001405aabbccddee001122334455667"),
        (b"eui.0025385971B01234", "20025385971b01234"),
        (b"iqn.2026-01.io.test:disk", "8iqn.2026-01.io.test:disk"),
    ],
)
def test_a_scsi_name_that_writes_another_kind_out_is_of_that_kind(name: bytes, identity: str) -> None:
    assert identity_of(page(designator(8, name, code_set=3))) == identity


def test_what_is_written_in_letters_is_the_same_as_what_is_written_in_bytes() -> None:
    written = page(designator(3, NAA_6.hex().encode(), code_set=ASCII))
    assert identity_of(written) == identity_of(page(designator(3, NAA_6)))


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("1ATA     QEMU HARDDISK                           QM00001 ", "1ATA_QEMU_HARDDISK_QM00001"),
        ("1VENDOR  a;b*c", "1VENDOR_a_b_c"),
        ("1VENDOR  x\0rest", "1VENDOR_x"),
        ("", ""),
    ],
)
def test_white_space_is_written_as_udev_writes_it(said: str, written: str) -> None:
    assert as_udev_writes(said) == written


@given(st.text())
def test_what_was_written_once_is_written_the_same_again(said: str) -> None:
    assert as_udev_writes(as_udev_writes(said)) == as_udev_writes(said)
