"""Secrets as CSI has them: the texts of one by key, which go into a call and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volmgr.plugin import ObjectRef, Secret, needed_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from volmgr.plugin import Objects, SecretReference

TOKENS = "csi.storage.k8s.io/serviceAccount.tokens"
"""As what a driver is told tokens of a Pod's service account: an attribute, or among the secrets; kubelet's."""


def secret_ref(reference: SecretReference) -> ObjectRef:
    """Name a Secret."""
    return ObjectRef("Secret", reference.namespace, reference.name)


def secrets(reference: SecretReference | None, objects: Objects, by: str) -> Mapping[str, str]:
    """Give what a driver is told of a Secret, if there is to be one; raises TransientError, which waits for it.

    `by` says which call needs it.
    """
    if reference is None or not reference.name:
        return {}
    return secrets_of(secret_ref(reference), objects, by)


def secrets_of(ref: ObjectRef, objects: Objects, by: str) -> Mapping[str, str]:
    """Give what a driver is told of a Secret, as above."""
    return _texts(needed_object(objects, ref, Secret, by=by))


def secrets_left(ref: ObjectRef, objects: Objects) -> Mapping[str, str]:
    """Give what is told of a Secret when something is taken away: nothing of one that went with what it was for."""
    found = objects.get(ref)
    return _texts(found) if isinstance(found, Secret) else {}


def _texts(secret: Secret) -> Mapping[str, str]:
    return {key: value.decode("utf-8", "replace") for key, value in secret.data.items()}
