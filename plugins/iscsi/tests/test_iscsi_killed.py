"""A daemon that is killed at any call of its host, or whose call fails: what it began is given back, or goes on."""

import pytest
from plugins.iscsi.tests.iscsi_site import Site
from plugins.iscsi.tests.test_iscsi import SECRET, volume, with_secret

from volmgr.plugin import OperationError, SecretReference, UncertainError, VolmgrError
from volmgr.testing import Fault, FaultHost, Killed

VOLUME = with_secret(
    volume(
        "10.0.0.1",
        "10.0.0.2",
        initiator_name="iqn.2026-01.io.test:own",
        chap_auth_discovery=True,
        chap_auth_session=True,
        secret_ref=SecretReference(name="chap"),
    )
)


def site_with_chap() -> Site:
    site = Site()
    site.host.storage.multipathd = True
    site.target.session_chap = {key: text.decode() for key, text in SECRET.items() if key.startswith("node.")}
    site.target.discovery_chap = {key: text.decode() for key, text in SECRET.items() if key.startswith("discovery.")}
    return site


def left(site: Site) -> list[str]:
    """Name what is left; that a device was just being formatted is remembered for its next mount."""
    state = site.host.tree(site.host.paths.state)
    files = [str(path) for path, what in state.items() if what.startswith("file") and "/formatting/" not in str(path)]
    return [*files, *site.records(), *map(str, site.initiator.sessions), *map(str, site.host.table)]


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_daemon_killed_while_it_connects_leaves_nothing_for_good(goes_on: bool) -> None:
    at, killed = 0, True
    while killed:
        at, site = at + 1, site_with_chap()
        try:
            VOLUME.set_up(FaultHost(site.host, [Fault(at, Killed())]))
            killed = False
        except Killed:
            pass
        if goes_on:
            VOLUME.set_up(site.host)
        VOLUME.unmount_device(site.host)
        assert left(site) == [], f"killed at call {at}"
        assert site.is_clean
    assert at > 100


def test_a_daemon_killed_while_it_disconnects_leaves_nothing_for_good() -> None:
    at, killed = 0, True
    while killed:
        at, site = at + 1, site_with_chap()
        ready = VOLUME.set_up(site.host)
        try:
            ready.unmount_device(FaultHost(site.host, [Fault(at, Killed())]))
            killed = False
        except Killed:
            pass
        ready.unmount_device(site.host)
        assert left(site) == [], f"killed at call {at}"
        assert site.is_clean
    assert at > 50


def test_a_call_that_fails_while_it_connects_leaves_nothing_but_where_it_says_so() -> None:
    at, calls = 0, 1
    while at < calls:
        at, site = at + 1, site_with_chap()
        faulty = FaultHost(site.host, [Fault(at, OperationError("no"))])
        try:
            VOLUME.set_up(faulty)
        except UncertainError:
            pass
        except VolmgrError:
            assert left(site) == [], f"call {at} failed: {faulty.trace[at - 1]}"
        VOLUME.unmount_device(site.host)
        assert left(site) == [], f"call {at} failed: {faulty.trace[at - 1]}"
        assert site.is_clean
        calls = len(faulty.trace)


def test_a_call_that_fails_while_it_disconnects_is_told_unless_nothing_is_left() -> None:
    at, calls = 0, 1
    while at < calls:
        at, site = at + 1, site_with_chap()
        ready = VOLUME.set_up(site.host)
        faulty = FaultHost(site.host, [Fault(at, OperationError("no"))])
        try:
            ready.unmount_device(faulty)
        except VolmgrError:
            ready.unmount_device(site.host)
        assert left(site) == [], f"call {at} failed: {faulty.trace[at - 1]}"
        assert site.is_clean
        calls = len(faulty.trace)
