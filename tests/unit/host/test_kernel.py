"""Facts about the kernel, from their text."""

import pytest

from volmgr.host.kernel import memory_of, page_sizes_of, version_of


@pytest.mark.parametrize(
    ("release", "version"),
    [("6.18.44-fc-v669", (6, 18)), ("5.14.0-503.el9.x86_64", (5, 14)), ("6.4", (6, 4)), ("odd", (0, 0))],
)
def test_major_and_minor_of_a_release_are_read(release: str, version: tuple[int, int]) -> None:
    assert version_of(release) == version


def test_memory_is_the_total_in_bytes() -> None:
    assert memory_of("MemTotal:       24684084 kB\nMemFree:        1 kB\n") == 24684084 * 1024
    assert memory_of("") == 0


def test_page_sizes_are_in_bytes_with_the_smallest_first() -> None:
    assert page_sizes_of(["hugepages-1048576kB", "hugepages-2048kB", "other"]) == (2 << 20, 1 << 30)
