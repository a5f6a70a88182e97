"""Makes, grows and deletes volumes for claims by a driver's own controller service, where nothing in a cluster does.

Source: external-provisioner v5 and external-resizer; what is a final error of CreateVolume is external-provisioner's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from volmgr.plugin import (
    CSI_FIELD,
    Grown,
    GrowVolume,
    ObjectRef,
    OperationError,
    PluginError,
    Provision,
    Provisioned,
    ProvisionerRequest,
    SecretReference,
    SpecError,
    TransientError,
    UncertainError,
)
from volmgr_csi.controller.attaching import check_detached
from volmgr_csi.controller.parameters import Parameters, Use, read_parameters
from volmgr_csi.controller.topology import check_allowed, node_affinity
from volmgr_csi.driver.connection import CallError
from volmgr_csi.driver.deadline import seconds
from volmgr_csi.driver.drivers import drivers_of
from volmgr_csi.driver.secrets import secret_ref, secrets, secrets_left
from volmgr_csi.driver.service_capabilities import (
    CREATE_DELETE_VOLUME,
    EXPAND_VOLUME,
    LIST_VOLUMES,
    SINGLE_NODE_MULTI_WRITER,
)
from volmgr_csi.settings import CsiSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from volmgr.plugin import DeleteVolume, Host, PersistentVolume
    from volmgr_csi.driver.drivers import Driver, KnownDrivers
    from volmgr_csi.driver.methods import A, Method, Q
    from volmgr_csi.v1 import csi_pb2 as csi

_OF_THIS_CALL = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED", "INTERNAL", "UNKNOWN"})
"""Codes that drivers give before they have looked for a volume, so that they say nothing of what is there of it."""
_LARGEST = (1 << 63) - 1
"""Bytes; CSI counts them in an int64."""
_DELETES_WITH = "volume.kubernetes.io/provisioner-deletion-secret-name"
_DELETES_IN = "volume.kubernetes.io/provisioner-deletion-secret-namespace"
"""The annotations of a PersistentVolume that name the Secret with which it is deleted; external-provisioner's."""
_NAME, _NAMESPACE, _VOLUME = (f"csi.storage.k8s.io/{key}" for key in ("pvc/name", "pvc/namespace", "pv/name"))
"""What a driver is told of its claim with `extra_create_metadata`."""
_MADE = re.compile(r"pvc-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:-\d+)?", re.ASCII)
"""What CreateVolume was given as a name, here or by external-provisioner; many drivers make it a part of the id."""
_REFERENCES: Mapping[Use, str] = {
    Use.CONTROLLER_PUBLISH: "controllerPublishSecretRef",
    Use.CONTROLLER_EXPAND: "controllerExpandSecretRef",
    Use.NODE_STAGE: "nodeStageSecretRef",
    Use.NODE_PUBLISH: "nodePublishSecretRef",
    Use.NODE_EXPAND: "nodeExpandSecretRef",
}
"""The field of a PersistentVolume's csi for each use of a Secret."""


class CsiProvisioner:
    """Serves every provisioner that is the name of a driver whose controller service makes volumes here."""

    def __init__(self, host: Host) -> None:
        """Look among the drivers of a root."""
        self._known: KnownDrivers = drivers_of(host)

    def serves(self, provisioner: str) -> bool:
        """Say whether there is such a driver, and it makes volumes."""
        found = self._known.find(provisioner)
        return found is not None and not found.retired and CREATE_DELETE_VOLUME in found.controller

    def references(self, request: ProvisionerRequest) -> tuple[ObjectRef, ...]:
        """Name the Secret that a call is made with."""
        reference = _secret_of(request)
        return () if reference is None else (secret_ref(reference),)

    def provision(self, request: Provision, host: Host) -> Provisioned:
        """Make a volume, or find the one of this name: CreateVolume is idempotent by it."""
        driver = self._maker(request.storage_class.provisioner)
        given = read_parameters(request.storage_class.parameters, request.name, request.claim)
        check_allowed(request.storage_class.allowed_topologies, driver.info.topology, driver.name)
        question = _creation(request, driver, given, host)
        made = _create(driver, question, host, request.deadline)
        asked = question.capacity_range.required_bytes
        if made.capacity_bytes and made.capacity_bytes < asked:
            raise UncertainError(
                f"CreateVolume of csi driver {driver.name} made {made.volume_id} of {made.capacity_bytes} bytes, less"
                f" than the {asked} that were asked for; its driver is wrong"
            )
        return Provisioned(
            source={CSI_FIELD: _source(driver.name, made, given, is_block=request.claim.volume_mode == "Block")},
            size=made.capacity_bytes,
            node_affinity=node_affinity(dict(place.segments) for place in made.accessible_topology),
            annotations=_deletion(given.secrets.get(Use.PROVISIONER)),
        )

    def delete(self, request: DeleteVolume, host: Host) -> None:
        """Delete a volume that nothing on this node has any more; one that is not there is deleted."""
        from volmgr_csi.driver.methods import DELETE
        from volmgr_csi.v1 import csi_pb2 as csi

        name, handle = _identity(request.volume)
        driver = self._maker(name)
        check_detached(request.volume.metadata.name, driver, handle, host)
        reference = _secret_of(request)
        told: Mapping[str, str] = secrets_left(secret_ref(reference), request.objects) if reference else {}
        try:
            _call(driver, DELETE, csi.DeleteVolumeRequest(volume_id=handle, secrets=told), host, request.deadline)
        except CallError as error:
            if error.code != "NOT_FOUND":
                raise error.as_outcome() from error

    def grow(self, request: GrowVolume, host: Host) -> Grown:
        """Give a volume more room; a driver without that leaves it to the nodes."""
        from volmgr_csi.driver.methods import GROW
        from volmgr_csi.v1 import csi_pb2 as csi

        name, handle = _identity(request.volume)
        driver = self._maker(name)
        if EXPAND_VOLUME not in driver.controller:
            if driver.abilities.expand:
                return Grown(size=request.size, by_nodes=True)
            raise SpecError(
                f"csi driver {name} grows no volumes: it says neither EXPAND_VOLUME nor that nodes do; ask for no more"
                " than there is"
            )
        question = csi.ControllerExpandVolumeRequest(
            volume_id=handle,
            capacity_range=csi.CapacityRange(required_bytes=_size(request.size)),
            secrets=secrets(_secret_of(request), request.objects, f"growing {request.volume.metadata.name}"),
            volume_capability=_capability(request.volume, driver),
        )
        try:
            answer = _call(driver, GROW, question, host, request.deadline)
        except CallError as error:
            raise error.as_outcome() from error
        return Grown(size=answer.capacity_bytes or request.size, by_nodes=answer.node_expansion_required)

    def strangers(self, provisioner: str, known: frozenset[str], host: Host, deadline: float) -> tuple[str, ...]:
        """Name volumes of a driver whose ids or contexts look like names that CreateVolume was given here."""
        driver = self._known.find(provisioner)
        if driver is None or driver.retired or LIST_VOLUMES not in driver.controller:
            return ()
        try:
            made = _made_by_us(driver, host, deadline)
            return tuple(volume_id for volume_id, name in made if not known & {volume_id, name})
        except CallError as error:
            raise error.as_outcome() from error

    def _maker(self, name: str) -> Driver:
        driver = self._known.making(name)
        if CREATE_DELETE_VOLUME not in driver.controller:
            raise PluginError(
                f"csi driver {name} makes no volumes: its controller service is elsewhere, or says not so; let it serve"
                " that at this socket, or write the PersistentVolume yourself"
            )
        return driver


def _creation(request: Provision, driver: Driver, given: Parameters, host: Host) -> csi.CreateVolumeRequest:
    from volmgr_csi.driver.volume_capability import access_of, capability
    from volmgr_csi.v1 import csi_pb2 as csi

    claim, asked = request.claim, request.claim.requests.get("storage")
    size = _size(asked.to_int() if asked else 0)
    multi_writer = SINGLE_NODE_MULTI_WRITER in driver.controller
    told = dict(given.told)
    if host.settings_of(CsiSettings).extra_create_metadata:
        meta = claim.metadata
        told |= {_NAME: meta.name, _NAMESPACE: meta.namespace, _VOLUME: request.name}
    here = [csi.Topology(segments=driver.info.topology)] if driver.info.topology else []
    return csi.CreateVolumeRequest(
        name=request.name,
        capacity_range=csi.CapacityRange(required_bytes=size),
        volume_capabilities=[
            capability(
                claim.volume_mode,
                access_of([mode], multi_writer=multi_writer),
                fs_type=given.fs_type,
                flags=request.storage_class.mount_options,
            )
            for mode in claim.access_modes or ("ReadWriteOnce",)
        ],
        parameters=told,
        secrets=secrets(given.secrets.get(Use.PROVISIONER), request.objects, f"making {request.name}"),
        accessibility_requirements=csi.TopologyRequirement(requisite=here, preferred=here) if here else None,
    )


def _size(asked: int) -> int:
    """Give the bytes that are asked for as CSI can say them; raises SpecError."""
    if not 0 <= asked <= _LARGEST:
        raise SpecError(
            f"resources.requests.storage: {asked} bytes are no size of a volume; CSI has at most {_LARGEST}"
        )
    return asked


def _create(driver: Driver, question: csi.CreateVolumeRequest, host: Host, deadline: float) -> csi.Volume:
    """Ask for a volume; what may have been made in spite of an error is asked for again with the same name."""
    from volmgr_csi.driver.methods import CREATE

    try:
        answer = _call(driver, CREATE, question, host, deadline)
    except CallError as error:
        if error.code == "RESOURCE_EXHAUSTED":  # of CreateVolume that is the storage's room, and nothing is pending
            raise OperationError(str(error)) from error
        if error.code in _OF_THIS_CALL:
            raise TransientError(str(error)) from error
        if error.code == "ALREADY_EXISTS":  # there is one of this name, with something else than what is asked now
            raise UncertainError(str(error)) from error
        raise error.as_outcome() from error
    if not answer.volume.volume_id:
        raise UncertainError(f"CreateVolume of csi driver {driver.name} gave no volume_id; its driver is wrong")
    return answer.volume


def _source(driver: str, made: csi.Volume, given: Parameters, *, is_block: bool) -> Mapping[str, object]:
    source: dict[str, object] = {"driver": driver, "volumeHandle": made.volume_id}
    if given.fs_type and not is_block:
        source["fsType"] = given.fs_type
    if made.volume_context:
        source["volumeAttributes"] = dict(made.volume_context)
    for use, name in _REFERENCES.items():
        reference = given.secrets.get(use)
        if reference is not None:
            source[name] = {"name": reference.name, "namespace": reference.namespace}
    return source


def _deletion(reference: SecretReference | None) -> Mapping[str, str]:
    return {} if reference is None else {_DELETES_WITH: reference.name, _DELETES_IN: reference.namespace}


def _identity(volume: PersistentVolume) -> tuple[str, str]:
    """Give the driver of a volume and what that knows it by; raises SpecError for one of another type."""
    driver, handle = volume.source.get("driver"), volume.source.get("volumeHandle")
    if volume.type != CSI_FIELD or not isinstance(driver, str) or not isinstance(handle, str):
        raise SpecError(f"PersistentVolume {volume.metadata.name} is no volume of csi")
    return driver, handle


def _secret_of(request: ProvisionerRequest) -> SecretReference | None:
    """Give the Secret that a call is made with."""
    if isinstance(request, Provision):
        given = read_parameters(request.storage_class.parameters, request.name, request.claim)
        return given.secrets.get(Use.PROVISIONER)
    annotations, source = request.volume.metadata.annotations, request.volume.source
    if not isinstance(request, GrowVolume):
        name = annotations.get(_DELETES_WITH, "")
        return SecretReference(name=name, namespace=annotations.get(_DELETES_IN, "")) if name else None
    said = source.get(_REFERENCES[Use.CONTROLLER_EXPAND])
    if not isinstance(said, dict):
        return None
    fields = cast("Mapping[str, object]", said)
    return SecretReference(name=str(fields.get("name", "")), namespace=str(fields.get("namespace", "")))


def _capability(volume: PersistentVolume, driver: Driver) -> csi.VolumeCapability:
    from volmgr_csi.driver.volume_capability import access_of, capability

    fs_type = volume.source.get("fsType")
    return capability(
        volume.volume_mode,
        access_of(volume.access_modes, multi_writer=SINGLE_NODE_MULTI_WRITER in driver.controller),
        fs_type=fs_type if isinstance(fs_type, str) else "",
        flags=volume.mount_options,
    )


def _made_by_us(driver: Driver, host: Host, deadline: float) -> Iterator[tuple[str, str]]:
    """Give the volumes of a driver that look made for claims: each by its id, and the PersistentVolume's name."""
    from volmgr_csi.driver.methods import LIST
    from volmgr_csi.v1 import csi_pb2 as csi

    token = ""
    while True:
        answer = _call(driver, LIST, csi.ListVolumesRequest(starting_token=token), host, deadline)
        for entry in answer.entries:
            told = entry.volume.volume_context.get(_VOLUME, "")
            found = _MADE.search(f"{told} {entry.volume.volume_id}")
            if found is not None:
                yield entry.volume.volume_id, found[0]
        token = answer.next_token
        if not token:
            return


def _call(driver: Driver, method: Method[Q, A], question: Q, host: Host, deadline: float) -> A:
    return driver.connection.call(method, question, seconds(host, deadline))
