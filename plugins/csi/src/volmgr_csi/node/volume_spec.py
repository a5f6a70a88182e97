"""What one volume needs: facets, references, and what no manifest may say. Pure.

Source: `behaviours.md` §4.11, which is `csi_plugin.go` of kubelet 1.37, and the API's validation of `csi`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from volmgr.plugin import (
    Applies,
    CsiSource,
    Facets,
    ObjectRef,
    Objects,
    Pod,
    Reference,
    SecretReference,
    SpecError,
    VolumeSpec,
    attachment_name,
)
from volmgr_csi.driver.names import is_driver_name
from volmgr_csi.driver.secrets import secret_ref
from volmgr_csi.node.attributes import account_ref, driver_object
from volmgr_csi.node.vol_data import EPHEMERAL, PERSISTENT

if TYPE_CHECKING:
    from volmgr.plugin import CSIDriver

_ONE_NODE = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})
_PV_ONLY = ("controller_publish_secret_ref", "node_stage_secret_ref", "controller_expand_secret_ref")
_DEFAULT_GROUP_POLICY = "ReadWriteOnceWithFSType"


def is_inline(spec: VolumeSpec[CsiSource]) -> bool:
    """Say whether a volume lives and ends with its Pod: those alone have no handle of their own."""
    return not spec.source.volume_handle


def facets(spec: VolumeSpec[CsiSource], objects: Objects) -> Facets:
    """Say what a volume takes part in, by its CSIDriver; without one it has to be attached."""
    lasting = not is_inline(spec)
    driver = driver_object(spec.source.driver, objects)
    return Facets(
        attach=lasting and (driver is None or driver.attach_required),
        device=lasting,
        block=lasting,
        expand=lasting,
        selinux=lasting and driver is not None and driver.se_linux_mount,
        fs_group=Applies.PLUGIN if gives_to_group(spec, driver) else Applies.NOBODY,
        remount=driver is not None and driver.requires_republish,
    )


def gives_to_group(spec: VolumeSpec[CsiSource], driver: CSIDriver | None) -> bool:
    """Say whether the Pod's fsGroup gets the files: the driver's fsGroupPolicy, and what the volume is."""
    policy = driver.fs_group_policy if driver is not None else _DEFAULT_GROUP_POLICY
    if spec.read_only or policy == "None":
        return False
    if policy == "File":
        return True
    return bool(spec.source.fs_type) and (is_inline(spec) or not _ONE_NODE.isdisjoint(spec.access_modes))


def check_lifecycle(spec: VolumeSpec[CsiSource], driver: CSIDriver | None) -> None:
    """Refuse a volume of a kind that its driver does not serve; raises SpecError."""
    mode = EPHEMERAL if is_inline(spec) else PERSISTENT
    served = driver.volume_lifecycle_modes if driver is not None else (PERSISTENT,)
    if mode in served:
        return
    name = spec.source.driver
    why = f"its CSIDriver says volumeLifecycleModes: {', '.join(served)}" if driver else f"there is no CSIDriver {name}"
    remedy = "use a PersistentVolume" if mode == EPHEMERAL else "declare the volume in the Pod"
    raise SpecError(f"volume {spec.name}: csi driver {name} serves no {mode} volumes ({why}); {remedy}, or add {mode}")


def references(spec: VolumeSpec[CsiSource], pod: Pod) -> Iterator[Reference]:
    """Name the objects that a volume needs."""
    source = spec.source
    yield Reference(ObjectRef("CSIDriver", "", source.driver), optional=True)
    yield Reference(account_ref(pod), optional=True)
    if is_inline(spec):
        if source.node_publish_secret_ref is not None:
            yield Reference(publish_secret(spec, pod))
        return
    name = attachment_name(source.driver, source.volume_handle, pod.spec.node_name)
    yield Reference(ObjectRef("VolumeAttachment", "", name))
    for needed in (source.node_stage_secret_ref, source.node_publish_secret_ref):
        if needed is not None:
            yield Reference(secret_ref(needed))
    attaching, growing = source.controller_publish_secret_ref, source.node_expand_secret_ref
    if attaching is not None:
        yield Reference(secret_ref(attaching), attaching=True)
    if growing is not None:  # without it the volume can be mounted all the same
        yield Reference(secret_ref(growing), optional=True)


def publish_secret(spec: VolumeSpec[CsiSource], pod: Pod) -> ObjectRef:
    """Name the Secret with which a volume is published: that of an inline one is in its Pod's namespace."""
    wanted = spec.source.node_publish_secret_ref or SecretReference()
    namespace = pod.metadata.namespace if is_inline(spec) else wanted.namespace
    return ObjectRef("Secret", namespace, wanted.name)


def kubelet_name(spec: VolumeSpec[CsiSource]) -> str:
    """Give a volume's name as kubelet writes it into its files: of an in-tree type it may not be a directory's."""
    return spec.pv.metadata.name if spec.pv is not None else spec.name


def check(spec: VolumeSpec[CsiSource]) -> None:
    """Raise SpecError for what no driver could serve."""
    source = spec.source
    if not source.driver:
        raise SpecError("csi.driver is empty; name the driver")
    if not is_driver_name(source.driver):
        raise SpecError(f"csi.driver {source.driver[:80]!r} is no driver's name; write one such as hostpath.csi.k8s.io")
    if spec.pv is None:
        _check_inline(source)
    elif not source.volume_handle:
        raise SpecError("csi.volumeHandle is missing; a PersistentVolume has to name its volume as the driver does")
    else:
        _check_secrets(source)


def _check_inline(source: CsiSource) -> None:
    if source.volume_handle:
        raise SpecError("csi.volumeHandle belongs to a PersistentVolume; leave it out, or claim that")
    strange = [field for field in (*_PV_ONLY, "node_expand_secret_ref") if getattr(source, field) is not None]
    if strange:
        raise SpecError(f"csi.{_camel(strange[0])} belongs to a PersistentVolume; leave it out")
    wanted = source.node_publish_secret_ref
    if wanted is not None and (not wanted.name or wanted.namespace):
        raise SpecError("csi.nodePublishSecretRef needs a name and no namespace: the Secret is in the Pod's")


def _check_secrets(source: CsiSource) -> None:
    for field in (*_PV_ONLY, "node_publish_secret_ref", "node_expand_secret_ref"):
        wanted: SecretReference | None = getattr(source, field)
        if wanted is not None and not (wanted.name and wanted.namespace):
            raise SpecError(f"csi.{_camel(field)} needs a name and a namespace")


def _camel(field: str) -> str:
    head, *rest = field.split("_")
    return head + "".join(map(str.capitalize, rest))
