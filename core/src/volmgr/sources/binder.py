"""Pairs claims with volumes where no controller does: what the sources say goes in, bound versions of it come out.

A pair is on disk before it is told. It stays until the claim is gone; then its volume is nobody's until it is released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from volmgr import pairing
from volmgr.errors import OperationError
from volmgr.model.meta import ObjectRef
from volmgr.model.names import claim_uid
from volmgr.model.objects import Node, PersistentVolumeClaim, StorageClass, ref_of
from volmgr.model.pod import Pod
from volmgr.model.volume import PersistentVolume
from volmgr.same_storage import is_same_storage
from volmgr.sources.bindings import Binding, Bindings
from volmgr.sources.changes import Change, ObjectChanged, ObjectLeft, PodAccepted
from volmgr.sources.choices import Choice, Choices
from volmgr.sources.made_volumes import MadeVolumes, Stage, is_being_made
from volmgr.sources.makings import Makings
from volmgr.sources.shelf import Links
from volmgr.sources.stock import PV, PVC, ClaimStanding, Standing, Stock, Why, volume_ref
from volmgr.sources.wishes import Wishes


class Binder:
    """Not thread-safe: the registry holds its lock around each call. `settle` is to follow whatever was heard."""

    def __init__(
        self,
        bindings: Bindings,
        made: MadeVolumes,
        emit: Callable[[Change], None],
        node_name: str = "",
        serves: Callable[[str], bool] = lambda _provisioner: False,
    ) -> None:
        """Tell `emit`; `node_name` is the Node whose labels count for a volume's nodeAffinity.

        `serves` says whether somebody here makes volumes for classes with a provisioner, for what people are told.
        """
        self._bindings = bindings
        self._made = made
        self._stock = Stock(bindings, made)
        self.makings = Makings(self._stock, serves)
        self._emit = emit
        self._node_name = node_name
        self._wishes = Wishes()
        """Volumes that any claim may have, and the pending claims that take whatever fits."""
        self._pending: set[ObjectRef] = set()
        """Claims without a volume."""
        self._why: dict[ObjectRef, Why] = {}
        """What each pending claim waits for."""
        self._reserved = Links[ObjectRef, str]()
        """Claims, and the volumes whose claimRef names each."""
        self._named = Links[str, ObjectRef]()
        """Volumes, and the pending claims that name each."""
        self._choices = Choices(self._stock, self.makings, self._wishes, self._reserved)
        self._look: dict[ObjectRef, None] = {}
        """What is to be looked at."""
        self._touched: set[ObjectRef] = set()
        """What may have to be told anew."""
        self._told: dict[ObjectRef, ClaimStanding | tuple[ObjectChanged, Standing]] = {}
        self.unrecorded: dict[ObjectRef, OperationError] = {}
        """What could not be recorded, with why: it is as it was, and tried again at the next `settle`."""

    # --- what is heard ---

    def start(self) -> None:
        """Read the records."""
        self._bindings.load()

    def seal(self, uid: str) -> None:
        """Take note that a Pod cannot be known: the claims that were made for it are not gone."""
        self._stock.sealed.add(uid)

    def foresee(self, pods: Iterable[Pod]) -> None:
        """Take note of Pods that are about to be told, so that all their claims are looked at once."""
        for pod in pods:
            self._look_soon(self._stock.consumers.accept(pod))

    def hear(self, change: Change) -> None:
        """Take in what the registry would tell; what concerns neither claims nor volumes is passed on at once."""
        match change:
            case ObjectChanged():
                self._hear_object(change)
            case ObjectLeft():
                self._lose_object(change)
            case PodAccepted():
                self._stock.sealed.discard(change.pod.uid)
                self._look_soon(self._stock.consumers.accept(change.pod))
                self.settle()  # its claims have their volumes when it is told
                self._emit(change)
            case _:
                self._emit(change)

    def forget_pod(self, uid: str) -> None:
        """Take note that nothing of a Pod is left: what was made for it goes."""
        used = self._stock.consumers.forget(uid)
        self._stock.gone |= {ref for ref, made in used.items() if made is not None and ref not in self._stock.claims}
        self._look_soon(used)

    def set_source(self, source: str, *, ready: bool) -> None:
        """Take note whether a source was read whole."""
        if not ready:
            self._stock.unread.add(source)
        elif source in self._stock.unread:
            self._stock.unread.discard(source)
            if not self._stock.unread:
                self._look_soon(self._pending)
                self._look_soon(map(volume_ref, filter(self._stock.is_doubtful, self._bindings.volumes())))
                self._look_soon(map(volume_ref, self._reserved))
                self._look_soon(each.ref for each in self._made.all() if is_being_made(each) or each.owner)
                for made in self._made.all():
                    self._emit_all(self.makings.unfinished(made.name))

    def _hear_object(self, change: ObjectChanged) -> None:
        item, ref = change.item, ref_of(change.item)
        self._stock.gone.discard(ref)
        match item:
            case PersistentVolume():
                self._stock.volumes[item.metadata.name] = change
                self._look_soon([ref])
                return
            case PersistentVolumeClaim():
                meta = item.metadata
                uid = meta.uid or claim_uid(meta.namespace, meta.name)
                self._stock.claims[ref] = change.of(replace(item, metadata=replace(meta, uid=uid)))
                self._look_soon([ref])
                return
            case StorageClass():
                self._stock.classes[item.metadata.name] = item
                self._look_soon(self._pending)
            case Node() if item.metadata.name == self._node_name:
                self._see_node(item)
            case _:
                pass
        self._emit(change)

    def _lose_object(self, change: ObjectLeft) -> None:
        ref = change.ref
        if ref.kind in {PV, PVC}:
            self._stock.gone.add(ref)
            self._stock.volumes.pop(ref.name, None) if ref.kind == PV else self._stock.claims.pop(ref, None)
            self._look_soon([ref])
            return
        if ref.kind == "StorageClass" and self._stock.classes.pop(ref.name, None) is not None:
            self._look_soon(self._pending)
        if ref.kind == "Node" and ref.name == self._node_name:
            self._see_node(None)
        self._emit(change)

    def _see_node(self, node: Node | None) -> None:
        self._stock.node = node
        self._wishes.judge(node)
        self._look_soon(self._pending)

    def _emit_all(self, changes: Iterable[Change]) -> None:
        for change in changes:
            self._emit(change)

    def _look_soon(self, refs: Iterable[ObjectRef]) -> None:
        self._look.update(dict.fromkeys(refs))

    # --- what is decided ---

    def settle(self) -> None:
        """Decide over everything that something changed for, record it, and tell."""
        self._look_soon(self.unrecorded)
        self.unrecorded.clear()
        while self._look:
            look, self._look = self._look, {}
            volumes = sorted(ref for ref in look if ref.kind == PV)
            for ref in volumes:
                self._try(ref, self._look_at_volume)
            for ref in sorted(ref for ref in look if ref.kind == PVC):
                self._try(ref, self._look_at_claim)
            for ref in volumes:
                self._give_away(ref.name)
        self._wishes.tidy()
        touched, self._touched = self._touched, set()
        for ref in sorted(touched):
            self._tell(ref)
        if not self._stock.unread:
            self._stock.gone.clear()

    def _try(self, ref: ObjectRef, look: Callable[[ObjectRef], None]) -> None:
        self._touched.add(ref)
        try:
            look(ref)
        except OperationError as error:
            self.unrecorded[ref] = error
            self._why[ref] = Why(f"it cannot be recorded: {error}")

    def _look_at_volume(self, ref: ObjectRef) -> None:
        """Settle whose a volume is, and where it is found."""
        name = ref.name
        self._put_away(name)
        held = self._bindings.of_volume(name)
        self._look_soon(self._named.of(name))
        if held is not None and held.claim is not None:
            self._check(held)
        elif name in self._stock.volumes and not self._stock.is_damaged(name):
            pv = self._stock.stated(name)
            if pv.claim_ref is None:
                self._wishes.offer(pv)
            else:
                self._reserved.put(pv.claim_ref.ref, name)
                self._look_soon([pv.claim_ref.ref])

    def _put_away(self, name: str) -> None:
        """Take a volume from where it was found."""
        self._wishes.withdraw(name)
        self._reserved.drop(name)

    def _check(self, held: Binding) -> None:
        """Settle whether a volume's claim is still there; raises OperationError when that cannot be recorded."""
        assert held.claim is not None  # noqa: S101 - only asked of one that has a claim
        claim = self._stock.claim(held.claim)
        self._touched |= {held.claim, volume_ref(held.volume)}
        here = held.volume in self._stock.volumes
        if claim is not None and claim.metadata.uid == held.uid and not held.released:
            return
        if (claim is None or claim.metadata.uid != held.uid) and not self._stock.has_left(held, claim):
            return
        if not here and self._stock.is_gone(volume_ref(held.volume)) and (claim is None or held.released):
            self._bindings.remove(held.volume)
        elif not held.released:
            self._bindings.put(replace(held, released=True))
            self._emit_all(self.makings.unfinished(held.volume))

    def _look_at_claim(self, ref: ObjectRef) -> None:
        """Settle which volume a claim has."""
        self._no_longer_pending(ref)
        for name in self._bindings.volumes_of(ref):
            held = self._bindings.of_volume(name)
            if held is not None:
                self._check(held)
        self._touched |= {volume_ref(name) for name in self._reserved.of(ref)}
        claim = self._stock.claim(ref)
        self._emit_all(self.makings.left_behind(ref, claim))
        if claim is None:
            self.makings.report(ref, "")
            return
        had = self._bindings.of_claim(ref)
        if had is not None and self._has_enough(claim, had.volume):
            self.makings.report(ref, "")  # it may have asked for more before
        if had is None:
            storage_class = pairing.claim_class(claim, pairing.default_class(self._stock.classes.values()))
            choice = self._choices.choice(ref, claim, storage_class)
            if choice.volume:
                self._bind(ref, claim, choice.volume)
            else:
                self._wait(ref, claim, choice)

    def _has_enough(self, claim: PersistentVolumeClaim, volume: str) -> bool:
        return volume in self._stock.volumes and pairing.asked(claim) <= self._stock.stated(volume).size

    def _no_longer_pending(self, ref: ObjectRef) -> None:
        self._pending.discard(ref)
        self.makings.makers.pop(ref, None)
        self._wishes.leave(ref)
        self._why.pop(ref, None)
        self._named.drop(ref)

    def _wait(self, ref: ObjectRef, claim: PersistentVolumeClaim, choice: Choice) -> None:
        self._why[ref] = Why(choice.why, choice.is_awaited)
        self._pending.add(ref)
        if choice.maker:
            self.makings.makers[ref] = choice.maker
        else:
            self.makings.report(ref, "")
        if choice.wish is not None:
            self._wishes.wait(ref, choice.wish, pairing.asked(claim))
        if claim.volume_name:
            self._named.put(claim.volume_name, ref)

    def _bind(self, ref: ObjectRef, claim: PersistentVolumeClaim, name: str) -> None:
        """Give a volume to a claim, durably; raises OperationError, and nothing has changed."""
        held = self._bindings.of_volume(name)
        self._bindings.put(
            Binding(
                volume=name,
                claim=ref,
                uid=claim.metadata.uid,
                size=self._stock.stated(name).size,
                owner=self.makings.owner_of(ref, claim),
                cleared=held.cleared if held else "",
            )
        )
        self._put_away(name)
        self.makings.report(ref, "")
        self._touched.add(volume_ref(name))

    def _give_away(self, name: str) -> None:
        """Offer a volume to those that wait, who asks for most first, as long as it is free."""
        while name in self._wishes and not self._stock.unread:
            taker = self._wishes.taker(name)
            if taker is None:
                return
            self._try(taker, self._look_at_claim)
            if taker in self._pending:
                return

    # --- what is told ---

    def _tell(self, ref: ObjectRef) -> None:
        """Tell of a claim or volume if anything of it changed."""
        now = self._standing(ref)
        if now == self._told.get(ref):
            return
        if now is None:
            del self._told[ref]
            self._emit(ObjectLeft(ref))
            return
        self._told[ref] = now
        if isinstance(now, ClaimStanding):
            self._emit(now.told())
        else:
            self._emit(self._stock.volumes[ref.name].of(self._stock.owned(ref.name)))

    def _standing(self, ref: ObjectRef) -> ClaimStanding | tuple[ObjectChanged, Standing] | None:
        if ref.kind == PVC:
            report = self.makings.reports.get(ref)
            why = Why(report) if report else self._why.get(ref, Why())
            return self._stock.claim_standing(ref, why, self.makings.makers.get(ref, ""))
        said = self._stock.volumes.get(ref.name)
        return (said, self._stock.standing(ref.name)) if said else None

    # --- what is asked for ---

    def begin(self, ref: ObjectRef) -> None:
        """Take note that a claim's volume is being made: it takes no other."""
        self._wishes.leave(ref)

    def look_at_pending(self) -> None:
        """Take note that others may make volumes now than did before."""
        self._look_soon(self._pending)

    def abandon(self, ref: ObjectRef) -> None:
        """Take note that the volume of a claim is not being made any more."""
        self._look_soon([ref])

    def report(self, ref: ObjectRef, text: str) -> None:
        """Say of a claim what is done for it, until it has its volume; empty: nothing any more."""
        self.makings.report(ref, text)
        self._touched.add(ref)

    def knows(self, name: str) -> bool:
        """Say whether it is recorded that some claim had a volume of this name, be it in a record that is damaged."""
        return self._bindings.of_volume(name) is not None or self._stock.is_damaged(name)

    def twin_of(self, pv: PersistentVolume) -> str:
        """Give another volume that is the same as this one to what stores it; empty when there is none."""
        others = (self._stock.stated(name) for name in self._stock.volumes if name != pv.metadata.name)
        return next((other.metadata.name for other in others if is_same_storage(pv, other)), "")

    def is_released(self, name: str) -> bool:
        """Say whether a volume's claim is gone for good (one of its name may have another), and no other has it."""
        held = self._bindings.of_volume(name)
        if held is not None and held.claim is not None:
            return held.released and (self._stock.claim(held.claim) is None or self._has_volume(held.claim))
        return name in self._stock.volumes and self._stock.standing(name).phase == "Released"

    def _has_volume(self, claim: ObjectRef) -> bool:
        return self._bindings.of_claim(claim) is not None

    def release(self, name: str) -> None:
        """Let a volume whose claim is gone be given to another claim.

        Raises KeyError when there is no such volume, OperationError when it is not released or cannot be recorded.
        """
        held, made = self._bindings.of_volume(name), self._made.find(name)
        if made is not None and made.stage is Stage.DELETING:
            raise OperationError(f"{PV} {name} is being deleted, with what is on it")
        if self._stock.is_damaged(name):
            self._bindings.remove(name)
            self._look_soon(self._pending)  # whatever they would take, they waited for this
        elif held is not None and held.claim is not None:
            self._release(held)
        elif name not in self._stock.volumes:
            raise KeyError(name)
        else:
            pv = self._stock.owned(name)
            if pv.phase != "Released" or pv.claim_ref is None:
                raise OperationError(f"{PV} {name} is {pv.phase}, not Released; there is nothing to do")
            self._bindings.put(Binding(volume=name, cleared=pv.claim_ref.uid))
        self._look_soon([volume_ref(name)])
        self.settle()

    def _release(self, held: Binding) -> None:
        assert held.claim is not None  # noqa: S101 - only asked of one that has a claim
        name = held.volume
        if not held.released:
            claim = f"{held.claim.namespace}/{held.claim.name}"
            there = self._stock.claim(held.claim) is not None
            why = f"belongs to claim {claim}" if there else f"is used by Pods through claim {claim}, which is gone"
            raise OperationError(f"{PV} {name} {why}; let {'the claim go' if there else 'the Pods end'} first")
        stated = self._stock.volumes.get(name)
        owner = stated.item.claim_ref if stated and isinstance(stated.item, PersistentVolume) else None
        if owner is not None and owner.uid:
            self._bindings.put(Binding(volume=name, cleared=owner.uid))  # its manifest still names that claim
        else:
            self._bindings.remove(name)

    def grown(self, name: str, size: int) -> None:
        """Take note that a volume has this size now; raises OperationError when that cannot be recorded."""
        held = self._bindings.of_volume(name)
        if held is not None and held.claim is not None and held.size < size:
            self._bindings.put(replace(held, size=size))
            self._touched.add(held.claim)
            self.settle()
