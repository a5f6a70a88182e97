"""Who makes volumes in tests: a pool that outlives the daemon, whose calls fail or die as a test says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from volmgr.host.interface import Host
from volmgr.model.meta import ObjectRef
from volmgr.plugin import (
    DeleteVolume,
    Grown,
    GrowVolume,
    OperationError,
    Provision,
    Provisioned,
    ProvisionerRequest,
    SpecError,
)

NAME = "pool.example.com"


@dataclass
class Pool:
    """The storage: volumes by name with their sizes, everything that was asked, and what is planned to go wrong."""

    volumes: dict[str, int] = field(default_factory=dict[str, int])
    calls: list[str] = field(default_factory=list[str])
    made: list[str] = field(default_factory=list[str])
    """Every volume that was ever made, so that one made twice is seen."""
    before: list[BaseException | None] = field(default_factory=list[BaseException | None])
    """Errors of the next calls, raised before anything is done."""
    after: list[BaseException | None] = field(default_factory=list[BaseException | None])
    """Errors of the next calls, raised when everything is done."""
    serving: bool = True
    by_nodes: bool = True
    node_affinity: Mapping[str, object] | None = None
    needs: tuple[ObjectRef, ...] = ()
    objects: list[ObjectRef] = field(default_factory=list[ObjectRef])
    """What the last call was handed."""

    on_act: Callable[[str], None] = lambda _call: None
    """Told of each call when it begins."""

    def act(self, call: str, deed: Callable[[], None]) -> None:
        """Do something, and fail as planned."""
        self.calls.append(call)
        self.on_act(call)
        _raise_next(self.before)
        deed()
        _raise_next(self.after)


def _raise_next(errors: list[BaseException | None]) -> None:
    error = errors.pop(0) if errors else None
    if error is not None:
        raise error


class PoolProvisioner:
    """Makes volumes of the probing type in a pool; remembers nothing itself."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    def serves(self, provisioner: str) -> bool:
        return self.pool.serving and provisioner == NAME

    def references(self, request: ProvisionerRequest) -> tuple[ObjectRef, ...]:
        if request.storage_class.parameters.get("wrong"):
            raise SpecError("parameters.wrong: there is no such parameter")
        return self.pool.needs

    def provision(self, request: Provision, host: Host) -> Provisioned:
        del host
        name, asked = request.name, request.claim.requests["storage"].to_int()
        self.pool.objects = list(request.objects)

        def make() -> None:
            if name not in self.pool.volumes:
                self.pool.made.append(name)
                self.pool.volumes[name] = asked

        self.pool.act(f"provision {name}", make)
        return Provisioned(
            source={"diskProbe": {"disk": name}}, size=self.pool.volumes[name], node_affinity=self.pool.node_affinity
        )

    def delete(self, request: DeleteVolume, host: Host) -> None:
        del host
        name = str(request.volume.source["disk"])
        self.pool.act(f"delete {name}", lambda: _forget(self.pool.volumes, name))

    def grow(self, request: GrowVolume, host: Host) -> Grown:
        del host
        name = str(request.volume.source["disk"])
        if name not in self.pool.volumes:
            raise OperationError(f"there is no {name}")
        self.pool.act(f"grow {name}", lambda: self.pool.volumes.update({name: request.size}))
        return Grown(size=self.pool.volumes[name], by_nodes=self.pool.by_nodes)

    def strangers(self, provisioner: str, known: frozenset[str], host: Host, deadline: float) -> tuple[str, ...]:
        del provisioner, host, deadline
        _raise_next(self.pool.before)
        return tuple(sorted(self.pool.volumes.keys() - known))


def _forget(volumes: dict[str, int], name: str) -> None:
    volumes.pop(name, None)
