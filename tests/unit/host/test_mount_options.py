"""Option strings, as mount(8) reads them."""

import pytest

from volmgr.errors import SpecError
from volmgr.host.mount_options import (
    MS_BIND,
    MS_NOATIME,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    MS_REC,
    MS_RELATIME,
    MS_SHARED,
    MS_SLAVE,
    MS_STRICTATIME,
    masked,
    parse_options,
    split_options,
)


def test_flags_go_to_the_kernel_and_the_rest_to_the_file_system() -> None:
    parsed = parse_options(["ro,nosuid", "size=1m", "nodev", "mode=0755"])
    assert parsed.flags == MS_RDONLY | MS_NOSUID | MS_NODEV
    assert parsed.data == "size=1m,mode=0755"


def test_the_last_of_two_opposite_options_wins() -> None:
    assert parse_options(["ro", "rw"]).flags == 0
    assert parse_options(["rw", "ro"]).flags == MS_RDONLY
    assert parse_options(["noexec,exec,noexec"]).flags == MS_NOEXEC


def test_words_for_fstab_and_systemd_never_reach_the_kernel() -> None:
    parsed = parse_options(["defaults", "_netdev", "nofail", "x-systemd.automount", "comment=mine", ""])
    assert (parsed.flags, parsed.cleared, parsed.data) == (0, 0, "")


def test_propagation_is_kept_apart_since_it_needs_a_call_of_its_own() -> None:
    parsed = parse_options(["rbind", "shared", "rslave"])
    assert parsed.flags == MS_BIND | MS_REC
    assert parsed.propagation == (MS_SHARED, MS_SLAVE | MS_REC)


def test_a_comma_in_quotes_belongs_to_the_value() -> None:
    assert split_options(['context="a:b:c:s0,c1",ro']) == ['context="a:b:c:s0,c1"', "ro"]


@pytest.mark.parametrize("option", ["loop", "loop=/dev/loop3"])
def test_loop_is_the_authors_mistake(option: str) -> None:
    with pytest.raises(SpecError, match="attach the image as a device"):
        parse_options([option])


def test_options_change_what_is_inherited_and_nothing_else() -> None:
    inherited = MS_RDONLY | MS_NOSUID | MS_RELATIME
    assert parse_options(["nodev"]).over(inherited) == inherited | MS_NODEV
    assert parse_options(["rw"]).over(inherited) == MS_NOSUID | MS_RELATIME
    assert parse_options(["strictatime"]).over(MS_NOATIME | MS_NOSUID) == MS_STRICTATIME | MS_NOSUID


def test_of_the_options_of_a_bind_only_its_flags_reach_the_kernel() -> None:
    # kubelet hands mount(8) [bind,_netdev], then [bind,remount,vers=2,ro,_netdev]: the kernel sees the same two calls.
    parsed = parse_options(["bind", "vers=2", "ro", "_netdev"])
    assert parsed.flags == MS_BIND | MS_RDONLY
    assert parsed.data == "vers=2"
    assert parsed.over(MS_NOSUID) == MS_BIND | MS_RDONLY | MS_NOSUID


def test_sensitive_options_are_masked_in_what_is_shown() -> None:
    assert masked(("ro", "vers=2"), ("password=hunter2",)) == ("ro", "vers=2", "<masked>")
    assert masked(("ro",), ()) == ("ro",)
