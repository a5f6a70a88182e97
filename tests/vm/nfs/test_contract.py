"""The contract of volume types, kept by nfs on the kernel's own client and server, over both kinds of addresses."""

from __future__ import annotations

import pytest

from tests.vm.contract import assert_kept


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.usefixtures("server")
def test_nfs_keeps_the_contract_of_volume_types() -> None:
    assert_kept("nfs")
