"""Making, growing and deleting one volume: the calls, each with its record ahead. Runs on workers.

Source of the order: external-provisioner and external-resizer, which do this in a cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from volmgr.errors import OperationError, PluginError, SpecError, TransientError, VolmgrError
from volmgr.model.driver_info import driver_awaited
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import StorageClass
from volmgr.model.quantity import Quantity
from volmgr.provisioner import DeleteVolume, GrowVolume, Provision
from volmgr.sources.made_volumes import MadeVolume, Stage
from volmgr.sources.provisions import Begun, Provisions, persistent_volume

if TYPE_CHECKING:
    from volmgr.host.interface import Host
    from volmgr.model.objects import Node
    from volmgr.provisioner import Provisioner


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisionSteps:
    """Takes them; `allowed` is what one call may take, in seconds. Each gives what people are told when it is done.

    What each raises, a VolmgrError, says what is left, as `Provisioner` has it.
    """

    host: Host
    provisions: Provisions
    find: Callable[[str], Provisioner | None]
    """Gives who serves a provisioner now; raises PluginError."""
    allowed: float
    node_name: str = ""
    node: Node | None = None

    def make(self, ref: ObjectRef, uid: str) -> str:
        """Make the volume of a claim that waits for it."""
        begun = self.provisions.begin(ref, uid)
        if begun is None:
            return ""
        try:
            return self._create(begun)
        except (SpecError, TransientError) as error:  # perhaps what the claim and its class say now can be had
            is_answer = isinstance(error, SpecError) or not error.waits_for
            again = self.provisions.begin_anew(begun.volume.name) if is_answer and not begun.fresh else None
            if again is None:
                raise
            return self._create(again)

    def finish(self, name: str) -> str:
        """Make or delete a volume for whose claim, which was gone, that was begun, as far as that is still so."""
        volume = self.provisions.find(name)
        if volume is None:
            return ""
        return self._create(Begun(volume, fresh=False)) if volume.stage is Stage.MAKING else self._delete(volume)

    def grow(self, name: str, size: int) -> str:
        """Give the volume of a claim `size` bytes."""
        known = self.provisions.find(name)
        if known is None or known.stage is not Stage.MADE:
            return ""
        storage_class = self._class_of(known)
        if not storage_class.allow_volume_expansion:
            text = "it asks for more than its volume has, which stays as it is"
            raise SpecError(f"{text}: allowVolumeExpansion of class {storage_class.metadata.name} is not true")
        maker = self._maker(known.storage_class)
        volume = self.provisions.begin_growth(name, size)
        if volume is None:
            return ""
        request = GrowVolume(
            volume=persistent_volume(volume),
            storage_class=storage_class,
            size=size,
            deadline=self.host.clock() + self.allowed,
        )
        answer = maker.grow(replace(request, objects=self.provisions.objects(maker.references(request))), self.host)
        now = max(answer.size, size)
        self.provisions.grown(name, now, by_nodes=answer.by_nodes)
        self.provisions.report(volume.ref, "")
        return f"PersistentVolume {name} has {Quantity.of_bytes(now)} now"

    def _create(self, begun: Begun) -> str:
        volume = begun.volume
        try:
            maker = self._maker(volume.storage_class)
            request = Provision(
                name=volume.name,
                claim=volume.claim,
                storage_class=volume.storage_class,
                node_name=self.node_name,
                node=self.node,
                deadline=self.host.clock() + self.allowed,
            )
            objects = self.provisions.objects(maker.references(request))
            made = maker.provision(replace(request, objects=objects), self.host)
        except OperationError:
            self.provisions.abandon(volume.name)
            raise
        except (TransientError, SpecError, PluginError):  # this call changed nothing: an earlier one may have
            if begun.fresh:
                self.provisions.abandon(volume.name)
            raise
        self.provisions.complete(volume.name, made)
        return f"PersistentVolume {volume.name} was made for claim {volume.ref.namespace}/{volume.ref.name}"

    def _delete(self, volume: MadeVolume) -> str:
        deleting = self.provisions.go_on_deleting(volume.name)
        if deleting is None:
            return ""  # its claim has come back and got it meanwhile, or somebody has given it to another
        maker = self._maker(volume.storage_class)
        request = DeleteVolume(
            volume=persistent_volume(deleting),
            storage_class=self._class_of(deleting),
            deadline=self.host.clock() + self.allowed,
        )
        maker.delete(replace(request, objects=self.provisions.objects(maker.references(request))), self.host)
        self.provisions.deleted(volume.name)
        return f"PersistentVolume {volume.name} is deleted, with what was on it"

    def _maker(self, storage_class: StorageClass) -> Provisioner:
        found = self.find(storage_class.provisioner)
        if found is None:
            name = storage_class.provisioner
            text = f"nobody here makes volumes as {name} would; start or install it"
            raise TransientError(text, waits_for=driver_awaited(name))
        return found

    def _class_of(self, volume: MadeVolume) -> StorageClass:
        """Give the class of a volume as it is now; as it was when the volume was made, where it is gone."""
        ref = ObjectRef("StorageClass", "", volume.storage_class.metadata.name)
        found = self.provisions.objects([ref]).get(ref)
        return found if isinstance(found, StorageClass) else volume.storage_class


def is_final(error: VolmgrError) -> bool:
    """Say whether trying again is of no use until a manifest changes."""
    return isinstance(error, SpecError)
