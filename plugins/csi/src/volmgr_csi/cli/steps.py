"""The calls by which a volume is published and taken back: each written down before, and again when its end is known.

A call that failed for good left nothing, so its step is as before; after any other failure it stays begun, and both
publishing again and taking back call it anew, which CSI promises to be harmless.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from volmgr.plugin import Host, OperationError
from volmgr_csi.cli import described, questions
from volmgr_csi.cli.driver import Caller
from volmgr_csi.cli.records import STAGING, Presence, Record, Records, Target
from volmgr_csi.driver.connection import CallError
from volmgr_csi.driver.methods import ATTACH, CREATE, DELETE, DETACH, PUBLISH, STAGE, UNPUBLISH, UNSTAGE
from volmgr_csi.driver.service_capabilities import (
    CONTROLLER_SERVICE,
    CREATE_DELETE_VOLUME,
    PUBLISH_READONLY,
    PUBLISH_UNPUBLISH_VOLUME,
    STAGE_UNSTAGE_VOLUME,
    VOLUME_ACCESSIBILITY_CONSTRAINTS,
)
from volmgr_csi.v1 import csi_pb2 as csi

NOT_FOUND = "NOT_FOUND"


@dataclass(slots=True)
class Steps:
    """One volume, while its directory is held."""

    records: Records
    directory: Path
    record: Record
    node: Caller
    controller: Caller
    secrets: Mapping[str, str] = field(repr=False)
    host: Host

    def publish(self, target: Target) -> None:
        """Do all that is not done yet, as the driver's capabilities say; raises CallError and OperationError."""
        plugin = described.plugin_capabilities(self.controller)
        service = CONTROLLER_SERVICE in plugin
        controller = described.controller_capabilities(self.controller) if service else ()
        if self.record.wish.size:
            self._create(controller, topology=VOLUME_ACCESSIBILITY_CONSTRAINTS in plugin)
        if not self.record.wish.ephemeral:
            if PUBLISH_UNPUBLISH_VOLUME in controller and not self.record.wish.publish_context:
                self._attach(read_only=target.read_only and PUBLISH_READONLY in controller)
            if STAGE_UNSTAGE_VOLUME in described.node_capabilities(self.node):
                self._stage()
        self._publish(target)

    def unpublish(self, paths: tuple[str, ...], *, keep: bool) -> None:
        """Take back what was done at some targets, and with the last target all the rest; `keep` the volume itself."""
        for path in paths:
            self._unpublish(path)
        if self.record.targets:
            return
        if self.record.staged is not Presence.NO:
            self._unstage()
        if self.record.attached is not Presence.NO:
            self._detach()
        if self.record.created is not Presence.NO:
            if not keep:
                self._delete()
            self._write(replace(self.record, created=Presence.NO))

    def _create(self, controller: tuple[str, ...], *, topology: bool) -> None:
        if self.record.created is Presence.YES:
            return
        if CREATE_DELETE_VOLUME not in controller:
            raise OperationError(
                f"csi driver {self.record.driver} cannot create volumes here; leave --create out, or name the socket"
                " of its controller service with --controller"
            )
        segments = described.node_information(self.node).topology if topology else None
        question = questions.creation(self.record, self.secrets, segments)

        def create() -> Record:
            made = self.controller(CREATE, question).volume
            context = dict(made.volume_context)
            return replace(self.record, created=Presence.YES, volume_id=made.volume_id, volume_context=context)

        self._step(replace(self.record, created=Presence.BEGUN), create)

    def _attach(self, *, read_only: bool) -> None:
        if self.record.attached is Presence.YES:
            return
        begun = replace(self.record, attached=Presence.BEGUN, node_id=described.node_information(self.node).node_id)
        question = questions.attachment(begun, self.secrets, read_only=read_only)

        def attach() -> Record:
            context = dict(self.controller(ATTACH, question).publish_context)
            return replace(begun, attached=Presence.YES, publish_context=context)

        self._step(begun, attach)

    def _stage(self) -> None:
        if self.record.staged is Presence.YES:
            return
        staging = self.record.staging or str(self.directory / STAGING)
        if not self.record.staging:
            self.host.files.ensure_directory(Path(staging), 0o750)
        begun = replace(self.record, staged=Presence.BEGUN, staging=staging)
        question = questions.staging(begun, self.secrets)

        def stage() -> Record:
            self.node(STAGE, question)
            return replace(begun, staged=Presence.YES)

        self._step(begun, stage)

    def _publish(self, target: Target) -> None:
        known = self.record.target(target.path)
        was_there = known.was_there if known is not None else os.path.lexists(target.path)
        begun = replace(target, published=Presence.BEGUN, was_there=was_there)
        question = questions.publication(self.record, begun, self.secrets)

        def publish() -> Record:
            self.node(PUBLISH, question)
            return self.record.with_target(replace(begun, published=Presence.YES))

        self._step(self.record.with_target(begun), publish)

    def _unpublish(self, path: str) -> None:
        target = self.record.target(path)
        if target is None:
            return
        question = csi.NodeUnpublishVolumeRequest(volume_id=self.record.volume_id, target_path=path)
        self._write(self.record.with_target(replace(target, published=Presence.BEGUN)))
        unless_gone(lambda: self.node(UNPUBLISH, question))
        if self.host.mounts.is_mount_point(Path(path)):
            message = f"csi driver {self.record.driver} says that nothing is published at {path}, but it is still"
            raise OperationError(f"{message} mounted; unmount it, and repeat the command")
        if not target.was_there:
            _clear(self.host, Path(path))
        self._write(self.record.without_target(path))

    def _unstage(self) -> None:
        staging = Path(self.record.staging)
        question = csi.NodeUnstageVolumeRequest(volume_id=self.record.volume_id, staging_target_path=str(staging))
        self._write(replace(self.record, staged=Presence.BEGUN))
        unless_gone(lambda: self.node(UNSTAGE, question))
        if self.host.mounts.is_mount_point(staging):
            message = (
                f"csi driver {self.record.driver} says that nothing is staged at {staging}, but it is still mounted"
            )
            raise OperationError(f"{message}; unmount it, and repeat the command")
        self._write(replace(self.record, staged=Presence.NO))

    def _detach(self) -> None:
        question = csi.ControllerUnpublishVolumeRequest(
            volume_id=self.record.volume_id, node_id=self.record.node_id, secrets=self.secrets
        )
        self._write(replace(self.record, attached=Presence.BEGUN))
        unless_gone(lambda: self.controller(DETACH, question))
        self._write(replace(self.record, attached=Presence.NO))

    def _delete(self) -> None:
        """Delete what was created; of one whose creation was cut short the id is asked for first, by its name."""
        if not self.record.volume_id:
            plugin = described.plugin_capabilities(self.controller)
            self._create((CREATE_DELETE_VOLUME,), topology=VOLUME_ACCESSIBILITY_CONSTRAINTS in plugin)
        question = csi.DeleteVolumeRequest(volume_id=self.record.volume_id, secrets=self.secrets)
        self._write(replace(self.record, created=Presence.BEGUN))
        unless_gone(lambda: self.controller(DELETE, question))

    def _step(self, begun: Record, call: Callable[[], Record]) -> None:
        before = self.record
        self._write(begun)
        try:
            done = call()
        except CallError as error:
            if error.is_final:
                self._write(before)
            raise
        self._write(done)

    def _write(self, record: Record) -> None:
        self.records.write(self.directory, record)
        self.record = record


def unless_gone(call: Callable[[], object]) -> None:
    """Call what takes back; that there is nothing of it counts as done."""
    try:
        call()
    except CallError as error:
        if error.code != NOT_FOUND:
            raise


def _clear(host: Host, path: Path) -> None:
    """Remove what a driver left of a target that it made; what has something in it stays."""
    found = host.files.info(path)
    if found is not None and found.kind == "directory":
        host.files.remove_directory(path)
    elif found is not None and found.kind == "file" and not found.size:
        host.files.remove_file(path)
