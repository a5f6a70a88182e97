"""What may register, as values: names and versions as kubelet's own tests have them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volmgr_csi.driver.drivers import Abilities
from volmgr_csi.registrar.rules import (
    BACKOFF,
    BACKOFF_MAX,
    RefusedError,
    abilities,
    back_off,
    check_name,
    highest_version,
)


@pytest.mark.parametrize(
    ("versions", "highest"),
    [
        (("1.0.0",), (1,)),
        (("v1.0.0",), (1,)),
        ((" v1.0.0 ",), (1,)),
        (("1.0.0", "1.2.3"), (1, 2, 3)),
        (("1.2.3", "1.0.0"), (1, 2, 3)),
        (("1.2",), (1, 2)),
        (("1.10.0", "1.9.9"), (1, 10)),
        (("0.3.0", "1.0.0"), (1,)),
        (("1.0.0", "2.0.0"), (1,)),
        (("1.1.0-rc1",), (1, 1)),
        (("garbage", "1.0.0"), (1,)),
        (("1.01.0",), (1, 1)),
    ],
)
def test_the_highest_version_of_csi_1_counts(versions: tuple[str, ...], highest: tuple[int, ...]) -> None:
    assert highest_version(versions) == highest


@pytest.mark.parametrize("versions", [("0.3.0",), ("2.0.0",), ("0.2.0", "3.1.0"), ("1",), ("01.0.0",), ("",), ("x.1",)])
def test_without_a_version_1_nothing_registers(versions: tuple[str, ...]) -> None:
    with pytest.raises(RefusedError, match=r"and no 1\.x, which is needed"):
        highest_version(versions)


def test_no_version_is_no_registration() -> None:
    with pytest.raises(RefusedError, match="names no version of CSI"):
        highest_version(())


@pytest.mark.parametrize("name", ["hostpath.csi.k8s.io", "a", "CSI.Example.COM", "x-1.y", "x" * 63])
def test_names_that_a_csi_driver_may_have(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a..b", "-a", "a-", "a_b", "a b", "x" * 64, "a\n", "ä", "dis\N{KELVIN SIGN}"]
)
def test_names_that_no_csi_driver_has_and_that_might_lead_elsewhere(name: str) -> None:
    with pytest.raises(RefusedError, match="must be a DNS subdomain"):
        check_name(name)


@given(st.integers(min_value=1, max_value=10_000))
def test_the_wait_between_two_attempts_doubles_up_to_kubelet_s(failures: int) -> None:
    assert BACKOFF <= back_off(failures) <= BACKOFF_MAX
    assert back_off(failures + 1) in {2 * back_off(failures), BACKOFF_MAX}


def test_the_waits_are_kubelet_s() -> None:
    waits = [back_off(failures) for failures in range(1, 11)]
    assert waits == [0.5, 1, 2, 4, 8, 16, 32, 64, 122, 122]


def test_abilities_are_read_from_csi_s_names_and_what_is_unknown_is_left_out() -> None:
    assert abilities(()) == Abilities()
    every = (
        "STAGE_UNSTAGE_VOLUME",
        "EXPAND_VOLUME",
        "GET_VOLUME_STATS",
        "VOLUME_MOUNT_GROUP",
        "SINGLE_NODE_MULTI_WRITER",
    )
    assert abilities((*every, "GET_VOLUME_HEALTH")) == Abilities(
        stage=True, expand=True, stats=True, mount_group=True, single_node_multi_writer=True
    )
