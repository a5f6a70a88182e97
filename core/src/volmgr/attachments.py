"""VolumeAttachments: what a controller says of attaching a volume, and what that means to who waits for it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from volmgr.model.objects import VolumeAttachment
    from volmgr.model.volume import Reference

ATTACH_LIMIT = 8
"""What `errorCode` says when a node has no room; gRPC's RESOURCE_EXHAUSTED, as kubelet reads it since 1.36."""


def apart(
    references: Iterable[Reference], *, controller_attach: bool
) -> tuple[tuple[Reference, ...], tuple[Reference, ...]]:
    """Part what only a volume that a controller attaches needs, its VolumeAttachment, from the rest.

    For others there is none, and an API server refuses a node that asks for what there is not. What only the controller
    needs to attach is left out.
    """
    found = tuple(item for item in references if not (controller_attach and item.attaching))
    by_attachment = tuple(item for item in found if item.ref.kind == "VolumeAttachment")
    return by_attachment, tuple(item for item in found if item.ref.kind != "VolumeAttachment")


def problem(attachment: VolumeAttachment) -> str:
    """Say why a volume is not attached yet."""
    if not attachment.attach_error:
        return f"{attachment.attacher} has not attached it to {attachment.node_name} yet"
    if attachment.error_code == ATTACH_LIMIT:
        text = f"the node has as many volumes of {attachment.attacher} attached as it can have"
        return f"VolumeAttachLimitExceeded: {text}: {attachment.attach_error}; run the Pod on another node"
    return f"{attachment.attacher} failed to attach it: {attachment.attach_error}"
