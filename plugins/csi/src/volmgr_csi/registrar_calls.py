"""What a registration socket is asked, and a driver once it registers; imports protobuf: with the first driver."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType
from typing import TYPE_CHECKING

from volmgr.plugin import DriverInfo
from volmgr_csi import methods
from volmgr_csi.connection import CallError, Connection
from volmgr_csi.drivers import Driver
from volmgr_csi.methods import Method
from volmgr_csi.registrar_rules import abilities
from volmgr_csi.registration import api_pb2 as registration
from volmgr_csi.v1 import csi_pb2 as csi

if TYPE_CHECKING:
    from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

    from volmgr_csi.methods import A, Q

GET_INFO = Method("/pluginregistration.Registration/GetInfo", registration.InfoRequest, registration.PluginInfo)
NOTIFY = Method(
    "/pluginregistration.Registration/NotifyRegistrationStatus",
    registration.RegistrationStatus,
    registration.RegistrationStatusResponse,
)

UNIMPLEMENTED = "UNIMPLEMENTED"

_CONTROLLER = "CONTROLLER_SERVICE"


def ask_info(registrar: Connection, timeout: float) -> registration.PluginInfo:
    """Ask a registration socket what it registers; raises CallError."""
    return registrar.call(GET_INFO, registration.InfoRequest(), timeout)


def notify(registrar: Connection, refusal: str, timeout: float) -> None:
    """Tell it whether its driver is registered: it is, unless there is a reason why not; raises CallError."""
    registrar.call(NOTIFY, registration.RegistrationStatus(plugin_registered=not refusal, error=refusal), timeout)


def ask_driver(connection: Connection, since: float, timeout: float) -> Driver:
    """Ask a driver what it is for this node and what it can do; raises CallError, and PluginError of its answers."""
    node = connection.call(methods.NODE_INFO, csi.NodeGetInfoRequest(), timeout)
    can_node = frozenset(_node_capabilities(connection, timeout))
    services = frozenset(_services(connection, timeout))
    controller = frozenset(_controller_capabilities(connection, timeout) if _CONTROLLER in services else ())
    info = DriverInfo(
        name=connection.driver,
        node_id=node.node_id,
        topology=MappingProxyType(dict(node.accessible_topology.segments)),
        limit=node.max_volumes_per_node,
        version=_version(connection, timeout),
        endpoint=connection.socket,
        capabilities=tuple(sorted(can_node | services | controller)),
        since=since,
    )
    return Driver(info=info, abilities=abilities(can_node), connection=connection, controller=controller)


def ask_name(connection: Connection, timeout: float) -> str:
    """Ask a driver for its name; raises CallError."""
    return connection.call(methods.PLUGIN_INFO, csi.GetPluginInfoRequest(), timeout).name


def _version(connection: Connection, timeout: float) -> str:
    answer = _unless_unimplemented(connection, methods.PLUGIN_INFO, csi.GetPluginInfoRequest(), timeout)
    return "" if answer is None else answer.vendor_version


def _node_capabilities(connection: Connection, timeout: float) -> Iterable[str]:
    question = csi.NodeGetCapabilitiesRequest()
    answer = _unless_unimplemented(connection, methods.NODE_CAPABILITIES, question, timeout)
    kinds = () if answer is None else (each.rpc.type for each in answer.capabilities)
    return _names(csi.NodeServiceCapability.RPC.Type, kinds)


def _services(connection: Connection, timeout: float) -> Iterable[str]:
    question = csi.GetPluginCapabilitiesRequest()
    answer = _unless_unimplemented(connection, methods.PLUGIN_CAPABILITIES, question, timeout)
    kinds = () if answer is None else (each.service.type for each in answer.capabilities)
    return _names(csi.PluginCapability.Service.Type, kinds)


def _controller_capabilities(connection: Connection, timeout: float) -> Iterable[str]:
    """Ask for them; where the controller is another process, this socket knows no such method."""
    question = csi.ControllerGetCapabilitiesRequest()
    answer = _unless_unimplemented(connection, methods.CONTROLLER_CAPABILITIES, question, timeout)
    kinds = () if answer is None else (each.rpc.type for each in answer.capabilities)
    return _names(csi.ControllerServiceCapability.RPC.Type, kinds)


def _unless_unimplemented(connection: Connection, method: Method[Q, A], question: Q, timeout: float) -> A | None:
    try:
        return connection.call(method, question, timeout)
    except CallError as error:
        if error.code != UNIMPLEMENTED:
            raise
        return None


def _names(kind: EnumTypeWrapper, numbers: Iterable[int]) -> Iterable[str]:
    """Give the names of what a driver says it can do, without what is newer than our version of CSI."""
    known = {number: name for name, number in kind.items()}
    return (known[number] for number in numbers if number and number in known)
