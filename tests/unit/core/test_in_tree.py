"""Types that were in Kubernetes' own tree: refused with what to use instead."""

from __future__ import annotations

import pytest

from volmgr.errors import UnservedError
from volmgr.in_tree import DRIVERS, ENDED
from volmgr.manifest.volumes import PV_FIELDS
from volmgr.plugins import PACKAGES, Plugins


@pytest.mark.parametrize(("field", "driver"), DRIVERS.items())
def test_a_type_that_a_csi_driver_replaced_names_it(field: str, driver: str) -> None:
    with pytest.raises(UnservedError) as error:
        Plugins().find(field)
    assert str(error.value) == (
        f"no package serves volume type {field!r}; write a csi volume with driver {driver} instead,"
        " and install that driver and volmgr-csi"
    )


@pytest.mark.parametrize("field", ENDED)
def test_a_type_that_nothing_replaced_says_so(field: str) -> None:
    with pytest.raises(UnservedError, match="has ended; move the data to another volume"):
        Plugins().find(field)


def test_every_type_of_kubernetes_has_a_package_or_is_explained() -> None:
    assert {*DRIVERS, *ENDED, *PACKAGES} >= PV_FIELDS
