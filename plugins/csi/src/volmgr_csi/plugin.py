"""csi: what the core calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from volmgr.plugin import Drivers, Host, Provisioner, Service, VolumePlugin, hookimpl
from volmgr_csi.controller.provisioner import CsiProvisioner
from volmgr_csi.driver.drivers import drivers_of
from volmgr_csi.registrar.service import Registrar
from volmgr_csi.settings import CsiSettings
from volmgr_csi.volume import Csi


@hookimpl
def volmgr_volume_plugins() -> Iterable[type[VolumePlugin[Any]]]:
    """Give the type that all drivers with a socket share."""
    return (Csi,)


@hookimpl
def volmgr_driver_watchers(drivers: Drivers, host: Host) -> Iterable[Service]:
    """Register drivers, by their registrars or by the configuration."""
    return (Registrar(drivers, host, host.settings_of(CsiSettings)),)


@hookimpl
def volmgr_attach_limit_reached(driver: str, host: Host) -> None:
    """Ask a driver anew how many volumes the node can have: what it said at its registration does not hold."""
    drivers_of(host).refresh(driver)


@hookimpl
def volmgr_provisioners(host: Host) -> Iterable[Provisioner]:
    """Make volumes for classes whose provisioner is the name of a driver with a controller service here."""
    return (CsiProvisioner(host),)
