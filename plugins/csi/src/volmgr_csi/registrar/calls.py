"""What a registration socket is asked, and a driver once it registers; imports protobuf: with the first driver."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from volmgr.plugin import DriverInfo
from volmgr_csi.driver import methods
from volmgr_csi.driver.connection import UNIMPLEMENTED, CallError, Connection
from volmgr_csi.driver.drivers import Driver
from volmgr_csi.driver.methods import Method
from volmgr_csi.driver.sanitizer import brief
from volmgr_csi.driver.service_capabilities import CONTROLLER_SERVICE
from volmgr_csi.registrar.rules import RefusedError, abilities, check_name
from volmgr_csi.registration import api_pb2 as registration
from volmgr_csi.v1 import csi_pb2 as csi

if TYPE_CHECKING:
    from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

    from volmgr_csi.driver.methods import A, Q

GET_INFO = Method("/pluginregistration.Registration/GetInfo", registration.InfoRequest, registration.PluginInfo)
NOTIFY = Method(
    "/pluginregistration.Registration/NotifyRegistrationStatus",
    registration.RegistrationStatus,
    registration.RegistrationStatusResponse,
)

_OPTIONAL = 10.0  # seconds for a call without which a driver is registered all the same


def ask_info(registrar: Connection, timeout: float) -> registration.PluginInfo:
    """Ask a registration socket what it registers; raises CallError."""
    return registrar.call(GET_INFO, registration.InfoRequest(), timeout)


def own_name(connection: Connection, timeout: float) -> str:
    """Give the name of the driver whose own socket this is; empty where it is none."""
    try:
        said = connection.call(methods.PLUGIN_INFO, csi.GetPluginInfoRequest(), timeout).name
        check_name(said)
    except (CallError, RefusedError):
        return ""
    return said


def notify(registrar: Connection, refusal: str, timeout: float) -> None:
    """Tell it whether its driver is registered: it is, unless there is a reason why not; raises CallError."""
    registrar.call(NOTIFY, registration.RegistrationStatus(plugin_registered=not refusal, error=refusal), timeout)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a driver answered: `gap` says what is not known of it, which is no reason to do without it."""

    driver: Driver
    name: str
    """What it calls itself; empty: it does not say."""
    gap: str = ""


def ask_driver(connection: Connection, since: float, timeout: float) -> Asked:
    """Ask a driver what it is for this node and what it can do; raises CallError, and PluginError of its answers.

    Kubelet asks only what is asked first; no driver is refused for the rest.
    """
    node = connection.call(methods.NODE_INFO, csi.NodeGetInfoRequest(), timeout)
    can_node = _node_capabilities(connection, timeout)
    gaps: list[str] = []
    said = _optional(connection, methods.PLUGIN_INFO, csi.GetPluginInfoRequest(), gaps)
    services = _services(connection, gaps)
    controller = _controller_capabilities(connection, gaps) if CONTROLLER_SERVICE in services else frozenset[str]()
    info = DriverInfo(
        name=connection.driver,
        node_id=node.node_id,
        topology=MappingProxyType(dict(node.accessible_topology.segments)),
        limit=node.max_volumes_per_node,
        version="" if said is None else brief(said.vendor_version),
        endpoint=connection.socket,
        capabilities=tuple(sorted(can_node | services | controller)),
        since=since,
    )
    driver = Driver(info=info, abilities=abilities(can_node), connection=connection, controller=controller)
    return Asked(driver, "" if said is None else said.name, "; ".join(gaps))


def _node_capabilities(connection: Connection, timeout: float) -> frozenset[str]:
    try:
        answer = connection.call(methods.NODE_CAPABILITIES, csi.NodeGetCapabilitiesRequest(), timeout)
    except CallError as error:
        if error.code != UNIMPLEMENTED:
            raise
        return frozenset()
    return _names(csi.NodeServiceCapability.RPC.Type, (each.rpc.type for each in answer.capabilities))


def _services(connection: Connection, gaps: list[str]) -> frozenset[str]:
    answer = _optional(connection, methods.PLUGIN_CAPABILITIES, csi.GetPluginCapabilitiesRequest(), gaps)
    kinds = () if answer is None else (each.service.type for each in answer.capabilities)
    return _names(csi.PluginCapability.Service.Type, kinds)


def _controller_capabilities(connection: Connection, gaps: list[str]) -> frozenset[str]:
    """Ask for them; where the controller is another process, this socket knows no such method."""
    answer = _optional(connection, methods.CONTROLLER_CAPABILITIES, csi.ControllerGetCapabilitiesRequest(), gaps)
    kinds = () if answer is None else (each.rpc.type for each in answer.capabilities)
    return _names(csi.ControllerServiceCapability.RPC.Type, kinds)


def _optional(connection: Connection, method: Method[Q, A], question: Q, gaps: list[str]) -> A | None:
    """Ask; None where the driver does not know the method, or, which is added to the gaps, does not answer."""
    try:
        return connection.call(method, question, _OPTIONAL)
    except CallError as error:
        if error.code != UNIMPLEMENTED:
            gaps.append(str(error))
        return None


def _names(kind: EnumTypeWrapper, numbers: Iterable[int]) -> frozenset[str]:
    """Give the names of what a driver says it can do, without what is newer than our version of CSI."""
    known = {number: name for name, number in kind.items()}
    return frozenset(known[number] for number in numbers if number and number in known)
