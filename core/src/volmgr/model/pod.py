"""Pods, as far as their volumes need them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from volmgr.model.meta import ObjectMeta
from volmgr.model.quantity import Quantity

_NO_QUANTITIES: Mapping[str, Quantity] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeMount:
    """A volume as one container sees it in its file tree."""

    name: str
    mount_path: str
    read_only: bool = False
    recursive_read_only: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""
    mount_propagation: str = "None"


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeDevice:
    """A block volume as one container sees it."""

    name: str
    device_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRequirements:
    """Limits and requests by resource name (`memory`, `ephemeral-storage`, `hugepages-2Mi` …)."""

    limits: Mapping[str, Quantity] = field(default_factory=lambda: _NO_QUANTITIES)
    requests: Mapping[str, Quantity] = field(default_factory=lambda: _NO_QUANTITIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class SELinuxOptions:
    """The parts of an SELinux label."""

    user: str = ""
    role: str = ""
    type: str = ""
    level: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityContext:
    """Who a container runs as."""

    run_as_user: int | None = None
    run_as_group: int | None = None
    privileged: bool = False
    se_linux_options: SELinuxOptions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSecurityContext:
    """Who a Pod runs as, and which group its volumes belong to."""

    run_as_user: int | None = None
    run_as_group: int | None = None
    fs_group: int | None = None
    fs_group_change_policy: str = "Always"
    supplemental_groups: tuple[int, ...] = ()
    se_linux_options: SELinuxOptions | None = None
    se_linux_change_policy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRef:
    """A field of the Pod itself, such as `metadata.name`."""

    field_path: str
    api_version: str = "v1"
    """Of the Pod; an API server adds it, and there is no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceFieldRef:
    """A limit or request of a container, such as `limits.cpu`, in units of `divisor` (absent or 0: one)."""

    resource: str
    container_name: str = ""
    divisor: Quantity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRef:
    """One key of a ConfigMap or Secret in the Pod's namespace."""

    key: str
    name: str = ""
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvVarSource:
    """Where an environment variable's value comes from: exactly one of them."""

    field_ref: FieldRef | None = None
    resource_field_ref: ResourceFieldRef | None = None
    config_map_key_ref: KeyRef | None = None
    secret_key_ref: KeyRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvVar:
    """One environment variable of a container."""

    name: str
    value: str = ""
    value_from: EnvVarSource | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRef:
    """An object in the Pod's namespace, by name."""

    name: str = ""
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvFromSource:
    """All keys of a ConfigMap or Secret as environment variables."""

    prefix: str = ""
    config_map_ref: LocalRef | None = None
    secret_ref: LocalRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container; `restart_policy` of `Always` makes an init container a sidecar."""

    name: str
    image: str = ""
    restart_policy: str = ""
    volume_mounts: tuple[VolumeMount, ...] = field(default=(), metadata={"strict": True})
    volume_devices: tuple[VolumeDevice, ...] = field(default=(), metadata={"strict": True})
    resources: ResourceRequirements = field(default_factory=ResourceRequirements)
    security_context: SecurityContext = field(default_factory=SecurityContext)
    env: tuple[EnvVar, ...] = field(default=(), repr=False)
    env_from: tuple[EnvFromSource, ...] = ()

    @property
    def is_sidecar(self) -> bool:
        """Say whether this init container keeps running beside the others."""
        return self.restart_policy == "Always"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodVolume:
    """One entry of `spec.volumes`: its name, the field that says its `type`, and that field's value, not yet typed."""

    name: str
    type: str = "emptyDir"
    source: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSpec:
    """What a Pod wants."""

    volumes: tuple[PodVolume, ...] = field(default=(), metadata={"elsewhere": True})
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[Container, ...] = ()
    security_context: PodSecurityContext = field(default_factory=PodSecurityContext)
    resources: ResourceRequirements = field(default_factory=ResourceRequirements)
    overhead: Mapping[str, Quantity] = field(default_factory=lambda: _NO_QUANTITIES)
    node_name: str = ""
    service_account_name: str = "default"
    image_pull_secrets: tuple[LocalRef, ...] = ()
    restart_policy: str = "Always"
    host_users: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStatus:
    """What is known of a Pod's run."""

    phase: str = ""
    running: tuple[str, ...] = field(default=(), metadata={"elsewhere": True})
    """The containers that run, by name, init and ephemeral ones too; only an API server's word for it counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A Pod; `metadata.uid` is its identity and never empty once it was accepted."""

    metadata: ObjectMeta
    spec: PodSpec
    status: PodStatus = field(default_factory=PodStatus)

    @property
    def uid(self) -> str:
        """The Pod's identity."""
        return self.metadata.uid

    @property
    def key(self) -> str:
        """`namespace/name`, as people write it."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def is_finished(self) -> bool:
        """Say whether the Pod ended for good (phase Succeeded or Failed)."""
        return self.status.phase in {"Succeeded", "Failed"}

    def all_containers(self) -> Iterator[Container]:
        """Give every container: init (sidecars too), main and ephemeral ones."""
        yield from self.spec.init_containers
        yield from self.spec.containers
        yield from self.spec.ephemeral_containers
