"""Pods, claims and plugins in; desired volumes out. Pure: no clock, no host, no state.

What cannot be resolved is an error of that one volume; the others of the Pod are there all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from volmgr import attachments, claims, limits, pairing
from volmgr.desired import DesiredMount, DesiredVolume, Missing
from volmgr.errors import PluginError, SpecError, VolmgrError
from volmgr.manifest.volumes import DRIVER_FIELDS
from volmgr.model import expansion
from volmgr.model.meta import ObjectRef
from volmgr.model.names import csi_volume_name, escape, kubelet_plugin, shared_volume_name, source_key, source_revision
from volmgr.model.objects import Node, Object, PersistentVolumeClaim, VolumeAttachment, ref_of
from volmgr.model.schema import Unknown, typed_source
from volmgr.model.selinux import Labelling, LabelTrouble, LabelWish, Trouble, access_mode
from volmgr.model.volume import RWOP, Facets, PersistentVolume, Reference, VolumeMode, VolumeSpec
from volmgr.plugin import Where

if TYPE_CHECKING:
    from volmgr.model.pod import Pod, PodVolume
    from volmgr.plugins import Plugins
    from volmgr.volume_type import VolumeType


_SHAPING = frozenset({"CSIDriver"})
"""Kinds of objects that say how a volume is served: without them neither its facets nor its name are known."""


class Stance(StrEnum):
    """What a Pod is to the desired state of the world."""

    ADD = "add"
    KEEP = "keep"
    """Terminating: what is mounted stays until its containers are gone; nothing new is mounted."""
    REMOVE = "remove"


def stance(pod: Pod, *, leaving: bool, held: bool, sources_ready: bool, keep_finished: bool = False) -> Stance:
    """Say what to do with a Pod's volumes.

    A Pod that has left, ends (deletionTimestamp) or has finished is removed once nobody holds it, nor says that its
    containers run. While somebody does, it is kept; before every source was read it is even added, so that what is on
    disk is known for its own.
    """
    finished = pod.is_finished and not keep_finished
    if not leaving and not pod.metadata.deletion_timestamp and not finished:
        return Stance.ADD
    if not held:
        return Stance.REMOVE
    return Stance.KEEP if sources_ready else Stance.ADD


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """What the populator knows besides the Pod: other objects and their revisions, the node, the plugins."""

    get: Callable[[ObjectRef], Object | None]
    revision: Callable[[ObjectRef], str]
    plugins: Plugins
    node: Node | None = None
    labelling: Labelling = field(default_factory=Labelling)
    all_of: Callable[[ObjectRef], Iterable[Object]] = lambda _every: ()
    """Gives every object that `every` (below) stands for."""
    awaited: Callable[[ObjectRef], str] = lambda _ref: ""
    """Says why it is not known whether there is such an object; empty when it is."""
    searching: bool = False
    """Drivers, which may make volumes for claims, are being looked for: the daemon has only started."""
    controller_attach: bool = False
    """Somebody else attaches, and says by VolumeAttachments what became of it."""
    absence: Callable[[ObjectRef], str] = lambda _ref: ""
    """Says who would have an object that is missing; empty: the manifests would."""


@dataclass(slots=True)
class Resolution:
    """What a Pod wants: its volumes, what could not be resolved (by the Pod's own name), and what it refers to."""

    wanted: list[tuple[DesiredVolume, DesiredMount]] = field(default_factory=list[tuple[DesiredVolume, DesiredMount]])
    errors: dict[str, str] = field(default_factory=dict[str, str])
    references: set[ObjectRef] = field(default_factory=set[ObjectRef])
    awaited: dict[str, str] = field(default_factory=dict[str, str])
    """What cannot be resolved yet, by the Pod's own name, and the object that it waits for."""
    troubles: dict[str, LabelTrouble] = field(default_factory=dict[str, LabelTrouble])
    """What is wrong with SELinux labels, by the Pod's own name of the volume: errors, and what is only counted."""


def every(ref: ObjectRef) -> ObjectRef:
    """Name all objects of a kind and namespace: whoever selects among them refers to this."""
    return ObjectRef(ref.kind, ref.namespace, "")


def used_volumes(pod: Pod) -> tuple[frozenset[str], frozenset[str]]:
    """Give the names in any container's volumeMounts, and those in volumeDevices; others are never mounted."""
    mounts: set[str] = set()
    devices: set[str] = set()
    for container in pod.all_containers():
        mounts.update(mount.name for mount in container.volume_mounts)
        devices.update(device.name for device in container.volume_devices)
    return frozenset(mounts), frozenset(devices)


def resolve(pod: Pod, lookup: Lookup, *, keep_only: bool = False) -> Resolution:
    """Give the volumes that a Pod wants; `keep_only`: nothing new is to be mounted for it."""
    mounts, devices = used_volumes(pod)
    resolution = Resolution(references=set(expansion.references(pod)))
    positions: dict[str, int] = {}
    for volume in pod.spec.volumes:
        mounted, mapped = volume.name in mounts, volume.name in devices
        if not mounted and not mapped:
            continue
        try:
            found, mount = _resolve_volume(_Wish(pod, volume, mounted, mapped, keep_only), lookup, resolution)
            _refuse_labels(found, mount, resolution)
        except claims.AwaitedError as error:
            resolution.awaited[volume.name] = str(error)
            continue
        except claims.UnboundError as error:
            is_early = lookup.searching and pairing.MAKER in error.claim.metadata.annotations
            (resolution.awaited if is_early else resolution.errors)[volume.name] = str(error)
            continue
        except (VolmgrError, ValueError) as error:
            resolution.errors[volume.name] = str(error)
            continue
        position = positions.setdefault(found.name, len(resolution.wanted))
        if position < len(resolution.wanted):  # two names for one claim share one entry
            earlier = resolution.wanted[position][1]
            mount = replace(mount, outer_names=(*earlier.outer_names, volume.name))
            resolution.wanted[position] = (found, mount)
        else:
            resolution.wanted.append((found, mount))
    return resolution


@dataclass(frozen=True, slots=True)
class _Wish:
    """One used volume of a Pod."""

    pod: Pod
    volume: PodVolume
    mounted: bool
    mapped: bool
    keep_only: bool


@dataclass(frozen=True, slots=True)
class TypedVolume:
    """A volume whose type is known."""

    type: VolumeType
    spec: VolumeSpec[Any]
    source: Mapping[str, object]
    """As its type reads it; that of an in-tree type that became csi is another than what is `written`."""
    written: Mapping[str, object]
    """As the manifest has it."""
    known_size: int = 0
    grows: bool = True


def _resolve_volume(wish: _Wish, lookup: Lookup, resolution: Resolution) -> tuple[DesiredVolume, DesiredMount]:
    volume = wish.volume
    if volume.type in claims.CLAIM_FIELDS:
        typed = _claimed(wish, lookup, resolution)
    else:
        typed = pod_volume(lookup.plugins, volume, wish.pod.metadata.namespace)
    plugin, spec = typed.type, typed.spec
    claims.check_mode(volume.name, spec.mode, mounted=wish.mounted, mapped=wish.mapped)
    plugin.ask("check", spec, wish.pod)
    references = _concrete(plugin.ask("references", spec, wish.pod), lookup, resolution)
    by_attachment, references = attachments.apart(references, controller_attach=lookup.controller_attach)
    resolution.references.update(reference.ref for reference in references if reference.selector is None)
    for reference in references:
        if reference.ref.kind in _SHAPING:
            claims.check_known(reference.ref, lookup)
    objects: dict[ObjectRef, Object] = {ref_of(wish.pod): wish.pod, **_there(references, lookup)}
    facets: Facets = plugin.ask("facets", spec, objects)
    if facets.attach and lookup.controller_attach:
        resolution.references.update(reference.ref for reference in by_attachment)
        objects |= _there(by_attachment, lookup)
        references += by_attachment
    if spec.mode is VolumeMode.BLOCK and not facets.block:
        message = (
            f"MapVolume.FindMapperPluginBySpec failed for volume {volume.name}: {plugin.name} has no block volumes"
        )
        raise PluginError(message)
    mounts_labels = facets.selinux and spec.mode is VolumeMode.FILESYSTEM
    labelling = lookup.labelling.wish(wish.pod, (volume.name,), spec.pv, supported=mounts_labels)
    mount = DesiredMount(
        pod=wish.pod,
        labelling=labelling,
        spec=spec,
        outer_names=(volume.name,),
        references=references,
        missing=tuple(_missing(references, objects, lookup)),
        revision=_revision(lookup, references, volume.type, typed.source, wish.pod),
        source=typed.source,
        source_key=source_key(volume.type, typed.written),
        size_limit=limits.local_size_limit(wish.pod, volume),
        memory_limit=limits.memory_limit(wish.pod, lookup.node),
        keep_only=wish.keep_only,
    )
    return _desired_volume(typed, facets, mount), mount


def _desired_volume(typed: TypedVolume, facets: Facets, mount: DesiredMount) -> DesiredVolume:
    plugin, spec = typed.type, typed.spec
    if facets.attach or facets.device:
        known = kubelet_plugin(plugin.name, spec.type, spec.driver)
        name = shared_volume_name(known, _storage_of(typed, facets))
    else:
        name = plugin.ask("unique_name", spec, mount.pod.uid)
    return DesiredVolume(
        name=name,
        plugin=plugin.name,
        spec=spec,
        facets=facets,
        size=spec.pv.size if spec.pv and not spec.read_only else 0,
        selinux_label=mount.labelling.mount_label,
        known_size=typed.known_size,
        grows=typed.grows,
        endpoint=plugin.ask("endpoint", spec),
        exclusive=(*plugin.ask("exclusive", spec), *_alone(spec)),
    )


def _storage_of(typed: TypedVolume, facets: Facets) -> str:
    """Ask for the identity of a volume's storage; raises PluginError when a controller could not attach it by that."""
    plugin, spec = typed.type, typed.spec
    said: str = plugin.ask("volume_name", spec)
    handle = typed.source.get("volumeHandle")
    if facets.attach and spec.pv is not None and spec.type == "csi" and handle:
        known = csi_volume_name(spec.driver or "", str(handle))
        if said != known:
            text = f"volume_name() of {plugin.origin} gave {said!r}, but a controller knows the volume as {known!r}"
            raise PluginError(f"{text}; its author has to return that")
    return said


def _alone(spec: VolumeSpec[Any]) -> tuple[str, ...]:
    """Give the key under which a volume that one Pod has for itself is mounted for no two at once."""
    return (f"PersistentVolume {spec.name}",) if spec.access_modes == RWOP else ()


def _refuse_labels(found: DesiredVolume, mount: DesiredMount, resolution: Resolution) -> None:
    """Count what is wrong with a volume's SELinux label; raises SpecError where that keeps it from being mounted."""
    if not found.facets.selinux:
        return
    asked = mount.labelling
    earlier = next((other for volume, other in resolution.wanted if volume.name == found.name), None)
    if not asked.trouble and earlier is not None and earlier.labelling.label != asked.label:
        text = "multiple SELinux labels: the Pod has the volume by two names, and its containers use them with other"
        asked = LabelWish(applied=asked.applied, trouble=Trouble.POD, problem=f"{text} labels; give them one")
    if asked.trouble is None:
        return
    mode = access_mode(mount.spec.pv)
    trouble = LabelTrouble(kind=asked.trouble, error=asked.applied, plugin=found.plugin, access_mode=mode)
    resolution.troubles[mount.outer_names[0]] = trouble
    if asked.applied:
        raise SpecError(asked.problem)


def _concrete(references: Iterable[Reference], lookup: Lookup, resolution: Resolution) -> tuple[Reference, ...]:
    """Put the objects that a selector accepts now in its place.

    It stays, and is missing by its name, where it accepts none and must, or where they are not all known yet.
    """
    found: list[Reference] = []
    for reference in references:
        selector = reference.selector
        if selector is None:
            found.append(reference)
            continue
        group = every(reference.ref)
        resolution.references.add(group)
        refs = sorted(ref_of(item) for item in lookup.all_of(group) if selector.accepts(item))
        found += [Reference(ref, optional=True) for ref in refs]
        if lookup.awaited(group) or not (refs or reference.optional):
            found.append(reference)
    return tuple(found)


def _there(references: Iterable[Reference], lookup: Lookup) -> dict[ObjectRef, Object]:
    return {item.ref: found for item in references if (found := lookup.get(item.ref)) is not None}


def _missing(references: Iterable[Reference], objects: Mapping[ObjectRef, Object], lookup: Lookup) -> Iterator[Missing]:
    for item in references:
        found = objects.get(item.ref)
        if isinstance(found, VolumeAttachment) and not found.attached:
            yield Missing(item.ref, attachments.problem(found))
        if found is None:
            why = lookup.awaited(item.ref if item.selector is None else every(item.ref))
            if why or not item.optional:
                yield Missing(item.ref, why or lookup.absence(item.ref))


def _claimed(wish: _Wish, lookup: Lookup, resolution: Resolution) -> TypedVolume:
    """Follow a claim to its volume's type."""
    ref = claims.claim_ref(wish.pod, wish.volume)
    resolution.references.add(ref)
    claim = lookup.get(ref)
    if isinstance(claim, PersistentVolumeClaim) and claim.volume_name:
        resolution.references.add(ObjectRef("PersistentVolume", "", claim.volume_name))
    bound = claims.resolve(wish.pod, wish.volume, lookup)
    pv = bound.volume
    claims.check_node(_placed(pv, lookup), lookup.node)
    typed = persistent_volume(lookup.plugins, pv, read_only=bound.read_only)
    known = bound.claim.status_capacity.get("storage")
    grows = claims.grows_here(bound.claim, pv.size)
    return replace(typed, known_size=known.to_int() if known else 0, grows=grows)


def pod_volume(plugins: Plugins, volume: PodVolume, namespace: str) -> TypedVolume:
    """Find the type of a volume that a Pod declares, and read it; raises SpecError, PluginError if nobody serves it."""
    if not plugins.migrates(volume.type):
        return _typed(plugins, volume.type, volume.source, Where.POD, name=volume.name)
    from volmgr import migration

    declared = migration.PodVolumeSource(source=volume.source, volume=volume.name, namespace=namespace)
    pv = migration.inline_csi(volume.type, declared)
    typed = _typed(plugins, pv.type, pv.source, Where.PV, name=escape(pv.metadata.name))
    spec = replace(typed.spec, pv=pv, access_modes=pv.access_modes)
    return replace(typed, spec=spec, written=volume.source)


def _typed(plugins: Plugins, field: str, source: Mapping[str, object], where: Where, *, name: str) -> TypedVolume:
    named = source.get("driver") if field in DRIVER_FIELDS else None
    driver = named if isinstance(named, str) else None
    volume_type = plugins.find(field, driver, where)
    return TypedVolume(volume_type, typed_spec(volume_type, field, driver, source, name=name), source, source)


def persistent_volume(plugins: Plugins, pv: PersistentVolume, *, read_only: bool = False) -> TypedVolume:
    """Find the type of a PersistentVolume, as a claim has it; raises as `pod_volume` does."""
    served = _served(plugins, pv)
    typed = _typed(plugins, served.type, served.source, Where.PV, name=pv.metadata.name)
    options = claims.mount_options(pv)
    if options and not typed.type.plugin.supports_mount_options:
        message = f"PersistentVolume {pv.metadata.name}: mount options are not supported for this volume type"
        raise SpecError(message)
    if any("\0" in option for option in options):
        raise SpecError(f"PersistentVolume {pv.metadata.name}: a mount option has a NUL in it")
    spec = replace(
        typed.spec,
        pv=served,
        access_modes=served.access_modes,
        read_only=read_only,
        mode=pv.volume_mode,
        mount_options=options,
    )
    return replace(typed, spec=spec, written=pv.source)


def _served(plugins: Plugins, pv: PersistentVolume) -> PersistentVolume:
    """Give a PersistentVolume as its type has it: one of an in-tree type as one of csi. Raises SpecError."""
    if not plugins.migrates(pv.type):
        return pv
    from volmgr import migration

    return migration.persistent_csi(pv)


def _placed(pv: PersistentVolume, lookup: Lookup) -> PersistentVolume:
    """Give a PersistentVolume with the affinity by which the node is judged; raises SpecError."""
    served = _served(lookup.plugins, pv)
    if served is pv or lookup.node is None:
        return pv
    from volmgr.migration.topology import is_judged_by

    return served if is_judged_by(pv, served, lookup.node) else pv


def typed_spec(
    volume_type: VolumeType, field: str, driver: str | None, source: Mapping[str, object], *, name: str
) -> VolumeSpec[Any]:
    """Read a source into its plugin's type, and give the spec of an inline volume; raises SpecError."""
    cls = volume_type.source_of(field, driver)
    value = source if cls is None else typed_source(cls, source, unknown=Unknown.ALLOW)
    read_only = getattr(value, "read_only", False) is True
    return VolumeSpec(name=name, type=field, source=value, driver=driver, read_only=read_only)


def _revision(
    lookup: Lookup, references: tuple[Reference, ...], field: str, source: Mapping[str, object], pod: Pod
) -> str:
    mine = ref_of(pod)
    parts = (
        f"{item.ref}@{_own_revision(pod, lookup.node) if item.ref == mine else lookup.revision(item.ref)}"
        for item in references
    )
    return ";".join((source_revision(field, source), *parts))


def _own_revision(pod: Pod, node: Node | None) -> str:
    """Give what changes with whatever files may show of a Pod: its metadata, and what it may use of the node."""
    asked = {container.name: container.resources for container in pod.all_containers()}
    shown = (pod.spec.resources, asked, node.allocatable if node else None)
    meta = pod.metadata
    texts = {"labels": dict(meta.labels), "annotations": dict(meta.annotations), "resources": repr(shown)}
    return source_revision("Pod", texts)
