"""The contract of volume types, on a real cluster: both clients, a Secret and a secret file, read-only and not."""

from __future__ import annotations

import pytest

from tests.vm.contract import assert_kept


@pytest.mark.slow  # hundreds of mounts, which take seconds each in an emulated machine
@pytest.mark.timeout(3000)
@pytest.mark.usefixtures("ceph")
def test_cephfs_keeps_the_contract_of_volume_types() -> None:
    assert_kept("cephfs")
