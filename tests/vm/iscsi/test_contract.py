"""The promises of volume types, kept by iscsi with a real target, open-iscsi and kernel."""

from __future__ import annotations

import pytest

from tests.vm.contract import assert_kept
from tests.vm.iscsi.site import Site
from volmgr_iscsi.contract import IQN, LUN, PORTALS


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_iscsi_keeps_the_contract_of_volume_types(site: Site) -> None:
    target = site.lio.target(IQN, portals=[each.partition(":")[0] for each in PORTALS])
    disk = site.lio.backstore("contract", 320 << 20)  # xfs needs 300
    target.map(LUN, disk)
    assert_kept("iscsi", environment={"VOLMGR_ISCSI_DISK": str(disk.loop)})
