"""The registration service: what kubelet's plugin watcher asks of a socket, and what it tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from google.protobuf.message import Message

from volmgr_csi.registration import api_pb2 as api


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What GetInfo says."""

    name: str
    endpoint: str
    """The driver's socket; empty: the one that is asked."""
    versions: tuple[str, ...] = ("1.0.0",)
    kind: str = "CSIPlugin"

    def works(self) -> Mapping[str, Any]:
        """Give what it answers, by method."""
        return {"GetInfo": self._info, "NotifyRegistrationStatus": self._noted}

    def _info(self, _request: api.InfoRequest) -> Message:
        return api.PluginInfo(type=self.kind, name=self.name, endpoint=self.endpoint, supported_versions=self.versions)

    def _noted(self, _status: api.RegistrationStatus) -> Message:
        return api.RegistrationStatusResponse()


def registration_services() -> Mapping[str, Any]:
    """Give the one service of plugin registration."""
    return cast("Mapping[str, Any]", api.DESCRIPTOR.services_by_name)
