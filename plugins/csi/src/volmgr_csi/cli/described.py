"""What a driver says of itself, asked call by call. Imports protobuf."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from volmgr_csi.cli.driver import Caller
from volmgr_csi.driver.connection import CallError
from volmgr_csi.driver.methods import (
    CONTROLLER_CAPABILITIES,
    NODE_CAPABILITIES,
    NODE_INFO,
    PLUGIN_CAPABILITIES,
    PLUGIN_INFO,
    PROBE,
)
from volmgr_csi.driver.service_capabilities import CONTROLLER_SERVICE
from volmgr_csi.v1 import csi_pb2 as csi

if TYPE_CHECKING:
    from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    """What a driver says of this node."""

    node_id: str
    max_volumes: int
    """0: it does not say."""
    topology: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """All that `volmgr csi info` shows; what a socket does not serve is empty."""

    name: str
    version: str
    manifest: Mapping[str, str]
    ready: bool | None
    """None: it does not say, which counts as ready."""
    plugin: tuple[str, ...] = ()
    controller: tuple[str, ...] = ()
    node: tuple[str, ...] = ()
    node_info: NodeInfo | None = None
    problems: tuple[str, ...] = ()
    """Calls that failed, but for those that it does not serve."""


def name_of(call: Caller) -> str:
    """Ask for the driver's name; raises CallError."""
    return call(PLUGIN_INFO, csi.GetPluginInfoRequest()).name


def described(call: Caller) -> Described:
    """Ask a driver all that it says of itself; raises CallError when it does not even say its name."""
    info = call(PLUGIN_INFO, csi.GetPluginInfoRequest())
    problems: list[str] = []

    def asked(question: Callable[[Caller], T]) -> T | None:
        try:
            return question(call)
        except CallError as error:
            if error.code != "UNIMPLEMENTED":
                problems.append(str(error))
            return None

    ready = asked(is_ready)
    plugin = asked(plugin_capabilities) or ()
    return Described(
        name=info.name,
        version=info.vendor_version,
        manifest=dict(info.manifest),
        ready=ready,
        plugin=plugin,
        controller=asked(controller_capabilities) or () if CONTROLLER_SERVICE in plugin else (),
        node=asked(node_capabilities) or (),
        node_info=asked(node_information),
        problems=tuple(problems),
    )


def is_ready(call: Caller) -> bool | None:
    """Ask whether it is ready."""
    answer = call(PROBE, csi.ProbeRequest())
    return answer.ready.value if answer.HasField("ready") else None


def plugin_capabilities(call: Caller) -> tuple[str, ...]:
    """Ask which services it has, and how volumes grow."""
    service, growth = csi.PluginCapability.Service.Type, csi.PluginCapability.VolumeExpansion.Type
    found: list[str] = []
    for each in call(PLUGIN_CAPABILITIES, csi.GetPluginCapabilitiesRequest()).capabilities:
        if each.HasField("service"):
            found.append(_name(service, each.service.type))
        elif each.HasField("volume_expansion"):
            found.append(f"VOLUME_EXPANSION_{_name(growth, each.volume_expansion.type)}")
    return tuple(found)


def controller_capabilities(call: Caller) -> tuple[str, ...]:
    """Ask what its controller service can do."""
    answer = call(CONTROLLER_CAPABILITIES, csi.ControllerGetCapabilitiesRequest())
    return tuple(_name(csi.ControllerServiceCapability.RPC.Type, each.rpc.type) for each in answer.capabilities)


def node_capabilities(call: Caller) -> tuple[str, ...]:
    """Ask what its node service can do."""
    answer = call(NODE_CAPABILITIES, csi.NodeGetCapabilitiesRequest())
    return tuple(_name(csi.NodeServiceCapability.RPC.Type, each.rpc.type) for each in answer.capabilities)


def node_information(call: Caller) -> NodeInfo:
    """Ask what it says of this node."""
    answer = call(NODE_INFO, csi.NodeGetInfoRequest())
    topology = dict(answer.accessible_topology.segments)
    return NodeInfo(node_id=answer.node_id, max_volumes=answer.max_volumes_per_node, topology=topology)


def _name(kind: EnumTypeWrapper, number: int) -> str:
    """Give a capability's name; one that is newer than our version of CSI has its number only."""
    return kind.Name(number) if number in kind.values() else f"UNKNOWN_{number}"
