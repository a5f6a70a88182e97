"""The methods of CSI v1 that are called, by path; imports protobuf: imported with the first driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, cast

from volmgr_csi.v1 import csi_pb2 as csi


class Message(Protocol):
    """What every generated message has."""

    def SerializeToString(self) -> bytes:  # noqa: N802 - protobuf's
        """Give it as on the wire."""
        ...

    @staticmethod
    def FromString(s: bytes) -> Message:  # noqa: N802 - as above
        """Read it."""
        ...


Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)


@dataclass(frozen=True, slots=True)
class Method(Generic[Q, A]):
    """One method: its path, what it is asked and what it answers."""

    path: str
    question: type[Q]
    answer: type[A]

    @property
    def name(self) -> str:
        """What people call it: `NodeStageVolume`."""
        return self.path.rpartition("/")[2]

    def read(self, text: bytes) -> A:
        """Read an answer."""
        return cast("A", self.answer.FromString(text))


def _identity(name: str, question: type[Q], answer: type[A]) -> Method[Q, A]:
    return Method(f"/csi.v1.Identity/{name}", question, answer)


def _node(name: str, question: type[Q], answer: type[A]) -> Method[Q, A]:
    return Method(f"/csi.v1.Node/{name}", question, answer)


def _controller(name: str, question: type[Q], answer: type[A]) -> Method[Q, A]:
    return Method(f"/csi.v1.Controller/{name}", question, answer)


PLUGIN_INFO = _identity("GetPluginInfo", csi.GetPluginInfoRequest, csi.GetPluginInfoResponse)
PLUGIN_CAPABILITIES = _identity(
    "GetPluginCapabilities", csi.GetPluginCapabilitiesRequest, csi.GetPluginCapabilitiesResponse
)
PROBE = _identity("Probe", csi.ProbeRequest, csi.ProbeResponse)

NODE_INFO = _node("NodeGetInfo", csi.NodeGetInfoRequest, csi.NodeGetInfoResponse)
NODE_CAPABILITIES = _node("NodeGetCapabilities", csi.NodeGetCapabilitiesRequest, csi.NodeGetCapabilitiesResponse)
STAGE = _node("NodeStageVolume", csi.NodeStageVolumeRequest, csi.NodeStageVolumeResponse)
UNSTAGE = _node("NodeUnstageVolume", csi.NodeUnstageVolumeRequest, csi.NodeUnstageVolumeResponse)
PUBLISH = _node("NodePublishVolume", csi.NodePublishVolumeRequest, csi.NodePublishVolumeResponse)
UNPUBLISH = _node("NodeUnpublishVolume", csi.NodeUnpublishVolumeRequest, csi.NodeUnpublishVolumeResponse)
STATS = _node("NodeGetVolumeStats", csi.NodeGetVolumeStatsRequest, csi.NodeGetVolumeStatsResponse)
EXPAND = _node("NodeExpandVolume", csi.NodeExpandVolumeRequest, csi.NodeExpandVolumeResponse)

CONTROLLER_CAPABILITIES = _controller(
    "ControllerGetCapabilities", csi.ControllerGetCapabilitiesRequest, csi.ControllerGetCapabilitiesResponse
)
CREATE = _controller("CreateVolume", csi.CreateVolumeRequest, csi.CreateVolumeResponse)
DELETE = _controller("DeleteVolume", csi.DeleteVolumeRequest, csi.DeleteVolumeResponse)
ATTACH = _controller("ControllerPublishVolume", csi.ControllerPublishVolumeRequest, csi.ControllerPublishVolumeResponse)
DETACH = _controller(
    "ControllerUnpublishVolume", csi.ControllerUnpublishVolumeRequest, csi.ControllerUnpublishVolumeResponse
)
VALIDATE = _controller(
    "ValidateVolumeCapabilities", csi.ValidateVolumeCapabilitiesRequest, csi.ValidateVolumeCapabilitiesResponse
)
GROW = _controller("ControllerExpandVolume", csi.ControllerExpandVolumeRequest, csi.ControllerExpandVolumeResponse)
LIST = _controller("ListVolumes", csi.ListVolumesRequest, csi.ListVolumesResponse)
