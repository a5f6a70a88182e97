"""The contract of volume types, kept by nfs on the kernel's own client and server, over both kinds of addresses."""

from __future__ import annotations

import pytest

from tests.vm.contract import EACH_CALL, assert_kept

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000), pytest.mark.usefixtures("server")]


def test_nfs_keeps_the_contract_of_volume_types() -> None:
    assert_kept("nfs")


def test_nfs_keeps_it_when_its_host_is_killed_or_fails_at_each_call() -> None:
    assert_kept("nfs", chosen=EACH_CALL)
