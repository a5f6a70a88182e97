"""The promises of volume types, kept by fc with a real fabric and kernel: over one port, and by a map over two."""

from __future__ import annotations

import pytest

from tests.vm.contract import assert_kept
from tests.vm.fc.site import MIB
from tests.vm.servers.fibre_channel import FibreChannel
from tests.vm.servers.multipathd import Multipathd

LUN = 5

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]


def test_fc_keeps_the_contract_of_volume_types_over_one_port(fabric: FibreChannel) -> None:
    fabric.map(LUN, fabric.backstore("contract", 16 * MIB))
    assert_kept("fc", environment={"VOLMGR_FC_LUN": f"{fabric.wwns[0]}:{LUN}"})


def test_fc_keeps_the_contract_of_volume_types_by_a_map(fabric: FibreChannel, multipath: Multipathd) -> None:
    fabric.map(LUN, fabric.backstore("contract", 16 * MIB))
    assert_kept("fc", environment={"VOLMGR_FC_LUN": f"{','.join(fabric.wwns)}:{LUN}"})
    assert multipath.maps() == {}
