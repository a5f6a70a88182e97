"""What every call of a controller service needs: its time, and the bytes of a Secret as texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volmgr.plugin import ObjectRef, Secret, needed_object
from volmgr_csi.settings import CsiSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from volmgr.plugin import Host, Objects, SecretReference


def seconds(host: Host, deadline: float = float("inf")) -> float:
    """Give what one call may take until a deadline on the host's clock."""
    return min(host.settings_of(CsiSettings).call_timeout, deadline - host.clock())


def secret_ref(reference: SecretReference) -> ObjectRef:
    """Name a Secret."""
    return ObjectRef("Secret", reference.namespace, reference.name)


def secrets(reference: SecretReference | None, objects: Objects, by: str) -> Mapping[str, str]:
    """Give what a driver is told of a Secret; raises TransientError, which waits for one that is missing."""
    if reference is None or not reference.name:
        return {}
    found = needed_object(objects, secret_ref(reference), Secret, by=by)
    return {} if found is None else texts_of(found)


def texts_of(secret: Secret) -> Mapping[str, str]:
    """Give a Secret's values as CSI has them."""
    return {key: value.decode("utf-8", "replace") for key, value in secret.data.items()}
