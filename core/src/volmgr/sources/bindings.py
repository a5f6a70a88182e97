"""Which volume belongs to which claim, durably: one record per volume in `ROOT/volmgr/claims/`. No decisions.

One record can name one claim only, so no crash leaves a volume with two.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from volmgr import records
from volmgr.host.interface import Files
from volmgr.host.paths import Paths
from volmgr.model.meta import ObjectRef

_KIND = "binding"


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """The claim that a volume was given to.

    `uid` is the claim's, `size` what the volume had in bytes when that was last known, `owner` the UID of the Pod that
    the claim was made for, if it was. `released`: the claim is gone, and nobody else gets the volume. `cleared` is a
    UID in the volume's own claimRef that does not count any more. `claim` is None when only that is to be remembered.
    """

    volume: str
    claim: ObjectRef | None = None
    uid: str = ""
    size: int = 0
    owner: str = ""
    released: bool = False
    cleared: str = ""


class Bindings:
    """The records by volume and by claim; every write raises OperationError when it fails, and then changed nothing."""

    def __init__(self, files: Files, paths: Paths) -> None:
        """Use the host's files."""
        self._files = files
        self._top = paths.state / "claims"
        self._by_volume: dict[str, Binding] = {}
        self._by_claim: dict[ObjectRef, set[str]] = {}
        self.damaged: set[str] = set()
        """File names of records that cannot be read."""

    def load(self) -> None:
        """Read every record."""
        for path, body in records.every(self._files, self._top, _KIND):
            binding = _binding(body or {})
            if binding is None or self.path(binding.volume) != path:
                self.damaged.add(path.name)
            else:
                self._index(binding)

    def of_volume(self, volume: str) -> Binding | None:
        """Give the record of a volume."""
        return self._by_volume.get(volume)

    def of_claim(self, claim: ObjectRef) -> Binding | None:
        """Give the record of the volume that a claim has; those that it had are not meant."""
        for name in sorted(self._by_claim.get(claim, ())):
            if not self._by_volume[name].released:
                return self._by_volume[name]
        return None

    def volumes_of(self, claim: ObjectRef) -> tuple[str, ...]:
        """Give the volumes that a claim of this name has or had."""
        return tuple(sorted(self._by_claim.get(claim, ())))

    def volumes(self) -> tuple[str, ...]:
        """Give every volume that has a record."""
        return tuple(self._by_volume)

    def path(self, volume: str) -> Path:
        """Give the path of a volume's record."""
        return self._top / records.file_name(f"pv.{volume}")

    def put(self, binding: Binding) -> None:
        """Write a record, so that it survives a power cut."""
        body: dict[str, object] = {
            "volume": binding.volume,
            "namespace": binding.claim.namespace if binding.claim else "",
            "name": binding.claim.name if binding.claim else "",
            "uid": binding.uid,
            "size": binding.size,
            "owner": binding.owner,
            "released": binding.released,
            "cleared": binding.cleared,
        }
        records.write(self._files, self.path(binding.volume), _KIND, body, durable=True)
        self._index(binding)

    def remove(self, volume: str) -> None:
        """Remove a record, or a damaged one."""
        path = self.path(volume)
        self._files.remove_file(path, durable=True)
        self.damaged.discard(path.name)
        self._forget(volume)

    def _index(self, binding: Binding) -> None:
        self._forget(binding.volume)
        self._by_volume[binding.volume] = binding
        if binding.claim is not None:
            self._by_claim.setdefault(binding.claim, set()).add(binding.volume)

    def _forget(self, volume: str) -> None:
        old = self._by_volume.pop(volume, None)
        if old is None or old.claim is None:
            return
        names = self._by_claim[old.claim]
        names.discard(volume)
        if not names:
            del self._by_claim[old.claim]


def _binding(body: dict[str, object]) -> Binding | None:
    volume, namespace, name, uid = (body.get(key) for key in ("volume", "namespace", "name", "uid"))
    size, owner, released, cleared = (body.get(key) for key in ("size", "owner", "released", "cleared"))
    if not (isinstance(volume, str) and isinstance(namespace, str) and isinstance(name, str) and isinstance(uid, str)):
        return None
    if not (isinstance(size, int) and isinstance(owner, str) and isinstance(cleared, str)):
        return None
    if not isinstance(released, bool) or (name and not uid):
        return None
    claim = ObjectRef("PersistentVolumeClaim", namespace, name) if name else None
    return Binding(volume=volume, claim=claim, uid=uid, size=size, owner=owner, released=released, cleared=cleared)
