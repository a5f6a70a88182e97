"""Which Pods use which claims, and the claims that are made for a Pod's ephemeral volumes; kept in memory.

Nothing of this is recorded: it follows from the accepted Pods, which are.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from volmgr.claims import CLAIM_FIELDS, claim_ref
from volmgr.model.meta import ObjectMeta, ObjectRef, OwnerReference
from volmgr.model.names import ephemeral_claim_uid
from volmgr.model.objects import PersistentVolumeClaim
from volmgr.model.schema import SchemaError, Unknown, typed_source
from volmgr.model.volume import EphemeralVolumeSource

if TYPE_CHECKING:
    from volmgr.model.pod import Pod, PodVolume

_log = logging.getLogger(__name__)


class Consumers:
    """The Pods from when they are accepted until they are forgotten."""

    def __init__(self) -> None:
        """Start empty."""
        self._by_pod: dict[str, dict[ObjectRef, PersistentVolumeClaim | None]] = {}
        self._by_claim: dict[ObjectRef, list[str]] = {}

    def accept(self, pod: Pod) -> set[ObjectRef]:
        """Take a Pod in, new or changed; gives the claims that another set of Pods uses now."""
        before = self._by_pod.get(pod.uid, {})
        now = dict(_claims(pod))
        for ref in before.keys() - now.keys():
            self._drop(ref, pod.uid)
        for ref in now.keys() - before.keys():
            self._by_claim.setdefault(ref, []).append(pod.uid)
        if now:
            self._by_pod[pod.uid] = now
        else:
            self._by_pod.pop(pod.uid, None)
        return set(before.keys() ^ now.keys())

    def forget(self, uid: str) -> dict[ObjectRef, PersistentVolumeClaim | None]:
        """Let go of a Pod whose last volume is gone; gives the claims that it used, and what was made for it."""
        gone = self._by_pod.pop(uid, {})
        for ref in gone:
            self._drop(ref, uid)
        return gone

    def uses(self, ref: ObjectRef) -> bool:
        """Say whether some Pod uses a claim."""
        return ref in self._by_claim

    def made(self, ref: ObjectRef, uid: str = "") -> PersistentVolumeClaim | None:
        """Give the claim of this name that was made for a Pod: of several the one of this UID, else the first one.

        Pods `a-b` and `a` make one name of their volumes `c` and `b-c`, and come in any order after a restart.
        """
        claims = [self._by_pod[pod][ref] for pod in self._by_claim.get(ref, ())]
        found = [claim for claim in claims if claim is not None]
        return next((claim for claim in found if claim.metadata.uid == uid), found[0] if found else None)

    def _drop(self, ref: ObjectRef, uid: str) -> None:
        uids = self._by_claim[ref]
        uids.remove(uid)
        if not uids:
            del self._by_claim[ref]


def _claims(pod: Pod) -> Iterator[tuple[ObjectRef, PersistentVolumeClaim | None]]:
    for volume in pod.spec.volumes:
        if volume.type in CLAIM_FIELDS:
            ref = claim_ref(pod, volume)
            yield ref, _made(pod, volume, ref.name) if volume.type == "ephemeral" else None


def _made(pod: Pod, volume: PodVolume, name: str) -> PersistentVolumeClaim | None:
    try:
        template = typed_source(EphemeralVolumeSource, volume.source, unknown=Unknown.ALLOW).volume_claim_template
    except SchemaError as error:  # it was accepted by an older volmgr
        _log.warning("pod %s: no claim can be made for its volume %s: %s", pod.key, volume.name, error)
        return None
    owner = OwnerReference(api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.uid, controller=True)
    spec = template.spec
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=name,
            namespace=pod.metadata.namespace,
            uid=ephemeral_claim_uid(pod.uid, volume.name),
            labels=template.metadata.labels,
            annotations=template.metadata.annotations,
            owner_references=(owner,),
        ),
        access_modes=spec.access_modes,
        volume_name=spec.volume_name,
        volume_mode=spec.volume_mode,
        storage_class_name=spec.storage_class_name,
        requests=spec.resources.requests,
        selector=spec.selector,
        data_source=spec.content,
    )
