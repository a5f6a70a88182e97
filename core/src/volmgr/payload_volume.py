"""The volume types whose files are made from objects: written at once into an emptyDir of the volume's own."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

from volmgr.host.interface import Host
from volmgr.model.payload import Payload
from volmgr.requests import Mount
from volmgr.volume_plugin import VolumePlugin

S = TypeVar("S")


class PayloadVolume(VolumePlugin[S], Generic[S]):
    """Derive from it, and say in `_payload` which files the volume has; the rest is the same for all such types."""

    medium: ClassVar[str] = "Memory"
    """The medium of the emptyDir that holds the files; empty is the disk."""

    def _payload(self, request: Mount[S], host: Host) -> Payload:
        """Give the volume's files; raises SpecError, or OperationError for what may be mended later."""
        raise NotImplementedError
