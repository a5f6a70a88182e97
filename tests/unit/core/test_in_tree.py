"""Types that were in Kubernetes' own tree: refused with what to use instead."""

from __future__ import annotations

import pytest

from volmgr.errors import UnservedError
from volmgr.in_tree import DRIVERS, ENDED, MIGRATED
from volmgr.manifest.volumes import PV_FIELDS
from volmgr.plugins import PACKAGES, Plugins


@pytest.mark.parametrize("field", MIGRATED)
def test_a_type_whose_volumes_become_csi_says_what_is_missing_for_that(field: str) -> None:
    with pytest.raises(UnservedError) as error:
        Plugins().find(field)
    assert str(error.value) == (
        f"no package serves volume type {field!r}; its volumes become volumes of csi, of driver {DRIVERS[field]};"
        " install that driver and volmgr-csi, then run volmgr plugins reload"
    )


@pytest.mark.parametrize(("field", "driver"), [each for each in DRIVERS.items() if each[0] not in MIGRATED])
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
