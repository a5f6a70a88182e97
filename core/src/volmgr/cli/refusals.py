"""What of a right manifest no mount could take: values of volumes, and expressions of subPaths. Touches no host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from volmgr.claims import CLAIM_FIELDS
from volmgr.errors import PluginError, SpecError, VolmgrError
from volmgr.in_tree import MIGRATED
from volmgr.manifest.pods import placed_containers
from volmgr.model import expansion
from volmgr.model.objects import StorageClass
from volmgr.model.pod import Pod
from volmgr.model.volume import ClaimRef, PersistentVolume
from volmgr.populator import TypedVolume, persistent_volume, pod_volume

if TYPE_CHECKING:
    from volmgr.model.objects import Object
    from volmgr.plugins import Plugins


@dataclass(frozen=True, slots=True)
class Refusal:
    """One field that says what cannot be."""

    field: str
    problem: str


def refusals(item: Object, plugins: Plugins) -> Iterator[Refusal]:
    """Give what is wrong with an object; who serves a type is said by others."""
    if isinstance(item, PersistentVolume):
        yield from _of_persistent_volume(item, plugins)
    if isinstance(item, StorageClass):
        yield from _of_class(item)
    if isinstance(item, Pod):
        yield from _of_volumes(item, plugins)
        yield from _of_expressions(item)


def _of_class(storage_class: StorageClass) -> Iterator[Refusal]:
    if storage_class.provisioner in MIGRATED.values():
        from volmgr import migration

        try:
            migration.class_csi(storage_class)
        except SpecError as error:
            field, _, problem = str(error).partition(": ")
            yield Refusal(field, problem)


def _of_persistent_volume(pv: PersistentVolume, plugins: Plugins) -> Iterator[Refusal]:
    owned = pv if pv.claim_ref else replace(pv, claim_ref=ClaimRef(namespace="default"))  # a claim will have it
    problem = _problem(partial(persistent_volume, plugins, owned), None)
    if problem:
        yield Refusal(f"spec.{pv.type}", problem)


def _of_volumes(pod: Pod, plugins: Plugins) -> Iterator[Refusal]:
    for index, volume in enumerate(pod.spec.volumes):
        if volume.type in CLAIM_FIELDS:
            continue
        read = partial(pod_volume, plugins, volume, pod.metadata.namespace)
        if problem := _problem(read, pod):
            yield Refusal(f"spec.volumes[{index}].{volume.type}", problem)


def _problem(read: Callable[[], TypedVolume], pod: Pod | None) -> str:
    try:
        typed = read()
    except PluginError:  # who serves it is said by others
        return ""
    except (VolmgrError, ValueError) as error:
        return str(error)
    try:
        typed.type.ask("check", typed.spec, pod)
    except VolmgrError as error:
        return str(error)
    return ""


def _of_expressions(pod: Pod) -> Iterator[Refusal]:
    for path, container in placed_containers(pod):
        for index, mount in enumerate(container.volume_mounts):
            try:
                expansion.check(pod, container, mount.sub_path_expr)
            except SpecError as error:
                yield Refusal(f"{path}.volumeMounts[{index}].subPathExpr", str(error))
