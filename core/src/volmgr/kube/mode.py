"""Kubernetes mode, wired: what is read from an API server, what a node tells it, and the one thread of both."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from volmgr.kube.claim_growth import ClaimGrowths
from volmgr.kube.conditions import PodConditions, condition_in
from volmgr.kube.csi_entries import in_process_drivers, migrated_plugins
from volmgr.kube.csi_node import CsiNodes
from volmgr.kube.custody import Custody
from volmgr.kube.event_texts import about_in
from volmgr.kube.events import EventSink
from volmgr.kube.following import Surroundings
from volmgr.kube.intake import SOURCE, Intake
from volmgr.kube.node import OwnNode
from volmgr.kube.pods import PodSource
from volmgr.kube.referred import FETCHED, ReferredObjects
from volmgr.messages import Message, ReadingChanged
from volmgr.model.driver_sources import CSI_FIELD
from volmgr.model.meta import ObjectRef
from volmgr.model.names import attachment_of
from volmgr.report.world import ServerReading

if TYPE_CHECKING:
    from volmgr.config import Config
    from volmgr.host.interface import Host
    from volmgr.kube.equipment import KubeEquipment
    from volmgr.model.driver_info import DriverInfo
    from volmgr.model.growth import Growth
    from volmgr.report.world import World
    from volmgr.sources.registry import Registry


class KubeMode:
    """Reads for a world, and tells of it; begins and ends with the daemon. `post` reaches the main thread."""

    name = SOURCE

    def __init__(
        self,
        equipment: KubeEquipment,
        config: Config,
        host: Host,
        post: Callable[[Message], None],
        world: World,
        registry: Registry,
    ) -> None:
        node_name = config.node_name
        thread, api, settings = basis = equipment.thread, equipment.api, config.kubernetes
        self._equipment = equipment
        self._thread = thread
        self._api = api
        self._config = config
        self._post = post
        self._world = world
        migrated = migrated_plugins(world.plugins.fields())
        self._csi = CsiNodes(*basis, node_name, self._tell_reading, migrated=migrated)
        self._conditions = PodConditions(*basis) if settings.pod_condition else None
        self._growths = ClaimGrowths(*basis)
        intake = Intake(registry, world.plugins)
        custody = Custody(host.files, host.paths, lambda: api.place, thread.now)
        self._pods = PodSource(*basis, node_name, intake, registry, custody, record_retry=config.record_retry)
        self._referred = ReferredObjects(Surroundings(*basis, intake, registry), self._tell_reading)
        self._node = OwnNode(
            *basis,
            node_name,
            post,
            self._saw_node,
            self._renew_attachments,
            controller_attach=config.controller_attaches,
        )
        world.events.listen(EventSink(*basis, node_name, about_in(world)).hear)
        world.fetched_kinds = FETCHED
        world.sources[SOURCE] = "not read yet"
        registry.expect(SOURCE)

    def start(self) -> None:
        """Begin to read."""
        for driver in in_process_drivers(self._world.plugins.drivers_of(CSI_FIELD), self._config.node_name):
            self._csi.declare(driver)
        self._thread.post(self._begin)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what was accepted stays."""
        self._thread.stop()

    def referred(self, added: frozenset[ObjectRef], removed: frozenset[ObjectRef]) -> None:
        """Follow other objects; from any thread."""
        self._thread.post(lambda: self._referred.refer(added, removed))

    def in_use(self, volumes: tuple[str, ...]) -> None:
        """Let the node's status say which volumes are in use; from any thread."""
        self._thread.post(lambda: self._node.report(volumes))

    def growing(self, growth: Growth) -> None:
        """Let a claim's status say what has become of growing its volume; from any thread."""
        self._growths.say(growth)

    def declare(self, info: DriverInfo) -> None:
        """Let the CSINode have an entry for a driver, and the Node its id and topology; from any thread."""
        self._csi.declare(info)

    def withdraw(self, name: str) -> None:
        """Let there be none any more; from any thread."""
        self._csi.withdraw(name)

    def pod_changed(self, uid: str) -> None:
        """Say on a Pod whether its volumes are there, if that is wanted; on the main thread."""
        if self._conditions is not None and (found := condition_in(self._world, uid)) is not None:
            self._conditions.say(*found)

    def forget(self, uid: str) -> None:
        """Drop what was issued for a Pod that is gone, and what is said of it; on a worker."""
        if self._conditions is not None:
            self._conditions.forget(uid)
        self._equipment.forget(uid)

    def retain(self, uids: Collection[str]) -> None:
        """Keep on disk what was issued for these Pods, and nothing else; raises OperationError. On a worker."""
        self._equipment.retain(uids)

    def accept(self) -> str:
        """Believe the server that Pods which it has not have gone; from any thread. Raises OperationError."""
        released = self._thread.call(self._pods.accept)
        return f"{self._api.address} is believed: {released} Pods that it does not have were kept, and go now"

    def _begin(self) -> None:
        self._tell_reading()
        self._csi.start()
        self._node.start()
        self._pods.start()

    def _renew_attachments(self, volumes: Sequence[str]) -> None:
        """Ask for the VolumeAttachments of what has just been attached: a controller made them anew."""
        names = (attachment_of(volume, self._config.node_name) for volume in volumes)
        self._referred.renew(ObjectRef("VolumeAttachment", "", name) for name in names if name)

    def _saw_node(self, uid: str) -> None:
        self._csi.saw_node(uid)
        self._pods.saw_node(uid)

    def _tell_reading(self) -> None:
        reading = ServerReading(
            server=self._api.address,
            watches=self._referred.watches,
            asked=self._referred.asked,
            unregistered=self._csi.missing,
            driver_problems=self._csi.driver_problems,
        )
        self._post(ReadingChanged(reading))
