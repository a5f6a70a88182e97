"""volmgrd: wiring and signals, nothing else."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

from volmgr import __version__, logs, records, reload, root, systemd
from volmgr.admission import Admission
from volmgr.desk import Outside
from volmgr.discovery import load as load_plugins
from volmgr.driver_reports import DriverReports
from volmgr.errors import OperationError, VolmgrError
from volmgr.helper_records import HelperRecords
from volmgr.holds import Holds
from volmgr.host import processor
from volmgr.host.kernel_log import KernelLog
from volmgr.host.local import local_host
from volmgr.host.mount_watch import MountWatch
from volmgr.host.tokens import LocalTokens
from volmgr.loop import Loop
from volmgr.messages import Appeared, Ask, HoldGone, HoldTaken, Message, Reconstructed, ServerHeard
from volmgr.options import Options
from volmgr.plugins import Plugins
from volmgr.process_ends import ProcessEnds
from volmgr.reconciler import Reconciler
from volmgr.reconstruct import reconstruct
from volmgr.report.events import EventLog
from volmgr.report.world import World
from volmgr.server.api import ApiServer
from volmgr.server.listen import listen, remove
from volmgr.service import Service
from volmgr.sources.further import FurtherSource
from volmgr.sources.registry import Registry
from volmgr.tenancy import HOOKS
from volmgr.workers import Workers

if TYPE_CHECKING:
    from volmgr.kube.equipment import KubeEquipment
    from volmgr.kube.mode import KubeMode
    from volmgr.model.meta import ObjectRef
    from volmgr.sources.directory import DirectorySource
    from volmgr.volume_type import Origin

log = logging.getLogger("volmgr.daemon")

SWITCH_INTERVAL = 0.0005
"""Seconds after which a computing thread gives way: Python's 5 ms would be most of a mount's latency."""


def main(argv: list[str] | None = None) -> None:
    """Run volmgrd; ends the process."""
    gc.disable()  # what is imported and read until the start is over stays
    signal.signal(signal.SIGTERM, _leave)  # until there is a loop to end
    options = Options.parse(argv)
    logs.configure(options.log_format, logging.DEBUG if options.verbose else logging.INFO)
    if options.check_plugins:
        sys.exit(reload.report_plugins(options.misconfigured))
    if os.geteuid() != 0:
        log.warning("volmgrd runs as user %d and can mount nothing; run it as root", os.geteuid())
    try:
        daemon = Daemon(options)
        daemon.start()
    except (VolmgrError, OSError) as error:
        log.error("%s", _text(error))  # noqa: TRY400 - a message for people, not a bug
        sys.exit(1)
    daemon.run()
    sys.exit(0)


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)  # an exception would be taken for that of the package that is being loaded


def _text(error: VolmgrError | OSError) -> str:
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def _kernel_log() -> KernelLog | None:
    """Give the kernel's log; None where it may not be read: then only who mounts or unmounts hears of silence."""
    try:
        return KernelLog()
    except OSError as error:
        log.info("the kernel's log is not read (%s): it would say which servers do not answer", error.strerror)
        return None


class Daemon:
    """Everything that makes a daemon, wired."""

    def __init__(self, options: Options) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL)
        processor.keep_to_one()
        os.umask(0o022)  # modes of what is made are exact, whoever starts the daemon
        inherited = reload.inherited()
        self._options = options
        self.config = options.configuration()
        self.host = local_host(root.ensure_directory(options.root_dir), look_deadline=self.config.look_deadline)
        self.lock = inherited.lock if inherited else root.lock(self.host)
        self.listener = socket.socket(fileno=inherited.socket) if inherited else listen(options.socket)
        self.listener.settimeout(0)
        self.loop = Loop()
        self.workers = Workers[Message](self._post, self.config.workers)
        plugins = load_plugins()
        self.host = self.host.with_settings(*options.settings(plugins, self.config))
        self.tokens = self._issuer()
        if self.tokens is not None:
            self.host = self.host.with_tokens(self.tokens)
        equipment = self._kube_equipment()
        if equipment is not None:
            self.host = equipment.equip(self.host)
        self.registry = self._registry(plugins)
        self.holds = Holds(self.host)
        self.helpers = HelperRecords(self.host)
        self.ends = ProcessEnds(self.loop, self.holds, self.helpers, self._post, self._run)
        self.world = World(
            paths=self.host.paths,
            plugins=plugins,
            events=EventLog(time.time, self.config.events_kept),
            admission=Admission(self.config),
        )
        self.kube = self._kube(equipment) if equipment is not None else None
        self.reconciler = Reconciler(self.world, self.host, self.config, self._outside())
        self.directory = self._directory()
        self.service = self._service()
        self.server = ApiServer(self.service, self.listener, frozenset({os.geteuid()}))
        self.mounts = MountWatch()
        self.kernel_log = _kernel_log()
        self.services = self.world.plugins.services(self._drivers, self._offers, self._recheck_holders, self.host)
        self.services += [each for each in (self.kube, self.directory) if each is not None]
        self._announced = False

    @property
    def _keeps_secrets(self) -> bool:
        return self._options.is_kubernetes_mode and self.config.kubernetes.checkpoint_secrets

    def _issuer(self) -> LocalTokens | None:
        settings, host = self.config.token_issuer, self.host
        return LocalTokens(settings, host.files, host.paths, node_name=self.config.node_name) if settings else None

    def _kube_equipment(self) -> KubeEquipment | None:
        """Give what speaks to an API server, if one is named; raises OperationError for one that cannot be used."""
        if not self._options.is_kubernetes_mode:
            return None
        if not self.config.node_name:
            raise OperationError("which Node of the cluster is this? name it with --node-name")
        from volmgr.kube.api import configured  # what it needs is only for those who have a cluster
        from volmgr.kube.equipment import KubeEquipment

        api = configured(self._options.kubeconfig, self.config.kubernetes)
        return KubeEquipment.of(api, self.config, self.host, lambda what: self._post(Appeared(what)))

    def _kube(self, equipment: KubeEquipment) -> KubeMode:
        from volmgr.kube.mode import KubeMode

        return KubeMode(equipment, self.config, self.host, self._post, self.world, self.registry)

    def _registry(self, plugins: Plugins) -> Registry:
        return Registry(
            self.host.files,
            self.host.paths,
            self._post,
            node_name=self.config.node_name,
            binds_claims=self.config.bind_claims and not self._options.is_kubernetes_mode,
            keeps_secrets=self._keeps_secrets,
            serves=plugins.makes_volumes,
        )

    def _directory(self) -> DirectorySource | None:
        if self._options.manifests is None:
            return None
        from volmgr.sources.directory import DirectorySource  # pyinotify is only for those who watch a directory

        return DirectorySource(
            "directory",
            self._options.manifests,
            self.host,
            self.registry,
            self.world.plugins,
            removal_settle=self.config.removal_settle,
            rescan_interval=self.config.rescan_interval,
            record_retry=self.config.record_retry,
            edition=f"volmgr {__version__}, {self.world.plugins.edition}",
        )

    def _service(self) -> Service:
        return Service(
            reconciler=self.reconciler,
            registry=self.registry,
            holds=self.holds,
            host=self.host,
            directory=self.directory,
            reload=self._reload,
            accept_cluster=self.kube.accept if self.kube is not None else None,
        )

    def _outside(self) -> Outside:
        outside = Outside(
            monotonic=time.monotonic,
            wall=time.time,
            submit=self.workers.submit,
            forget=self._forget,
            retain=self._retain_soon,
            keep=self.registry.keep,
            grown=self.registry.grown,
            provisions=self.registry.provisions,
            wake=self.loop.wake,
            slow=self.workers.make_room,
            over=self.workers.take_room_back,
            held=self.ends.await_holder,
            released=self.ends.forget,
            survives=self.ends.await_survivor,
            end=self.ends.signal_survivor,
        )
        if self.kube is None:
            return outside
        return replace(
            outside,
            referred=self.kube.referred,
            in_use=self.kube.in_use,
            growing=self.kube.growing,
            pod_changed=self.kube.pod_changed,
            declared=self.kube.declare,
            withdrawn=self.kube.withdraw,
        )

    def _post(self, message: Message) -> None:
        self.reconciler.post(message)

    def _run(self, what: str, chore: Callable[[], None]) -> None:
        """Run a chore on a worker, again and again until the host lets it; nobody hears that it is done."""

        def done() -> Message:
            chore()
            return Ask(lambda: None)

        self.reconciler.run(what, done)

    def _forget(self, uid: str) -> bool:
        forgotten = self.registry.forget(uid)
        if forgotten and self.kube is not None:
            self.kube.forget(uid)
        return forgotten

    def _retain_soon(self, refs: frozenset[ObjectRef], uids: frozenset[str]) -> None:
        def retain() -> None:
            self.registry.retain(refs)
            if self.kube is not None:
                self.kube.retain(uids)

        self._run("keeping the objects in use on disk", retain)

    def _drivers(self, origin: Origin) -> DriverReports:
        return DriverReports(self._post, origin)

    def _offers(self, name: str) -> FurtherSource:
        self.world.sources[name] = "not read yet"
        self.registry.expect(name)
        return FurtherSource(name, self.registry, self.world.plugins)

    def _recheck_holders(self, uid: str) -> None:
        self._post(HoldGone(HOOKS, uid))

    def start(self) -> None:
        """Read what was accepted, and start what runs beside the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        self.loop.heed_signals()
        self.world.sources["api"] = "its records are not read yet"
        if self.directory is not None:
            self.world.sources[self.directory.name] = "not read yet"
            self.registry.expect(self.directory.name)
        elif self.kube is None:
            log.info("neither --manifests nor --kubeconfig is given: Pods come by the API only")
        self.reconciler.set_read_only(read_only=root.is_foreign(self.host))
        records.sweep(self.host.files, self.host.paths.state)
        self.registry.start()
        for hold in self.holds.load():
            self._post(HoldTaken(hold))
        self.registry.state("api", ready=True)
        self._run_first_chores()
        for service in self.services:
            service.start()
        self.loop.watch(self.server, self.server.accept_ready)
        self.loop.watch(self.mounts, self._mounts_changed)
        if self.kernel_log is not None:
            self.loop.watch(self.kernel_log, partial(self._hear_kernel, self.kernel_log))
        gc.freeze()
        gc.enable()

    def _run_first_chores(self) -> None:
        self._run("going on with deletions", self.host.files.resume_discards)  # a crash left them in the trash
        if not self._keeps_secrets and self.host.files.info(self.host.paths.secrets) is not None:
            self._run("removing the Secrets and tokens that were kept", self._forget_secrets)
        if self.tokens is not None:  # others are to have the public part of the key before the first token
            self._run("making the key of token_issuer", self.tokens.prepare)
        self.reconciler.run("looking for what is mounted", self._reconstruct)

    def _forget_secrets(self) -> None:
        """Remove what was kept of Secrets and tokens while that was asked for."""
        from volmgr.kube.checkpoint import forget_secrets  # seldom needed

        removed = forget_secrets(self.host.files, self.host.paths)
        log.info("checkpoint_secrets is off: %d Secrets and tokens that were kept on disk are removed", removed)

    def _reconstruct(self) -> Message:
        attach = self.config.controller_attaches
        volumes = reconstruct(self.host, self.world.plugins, controller_attach=attach)
        return Reconstructed(volumes, self.helpers.load())

    def run(self) -> None:
        """Run until SIGTERM or SIGINT; volumes stay mounted."""
        self.loop.run(self._step, self.reconciler.timers)
        self.world.events.close()
        remove(self._options.socket)
        self.server.close()
        self._stop_services()

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self.loop.stop()

    def _step(self) -> None:
        self.reconciler.step()
        if not self._announced and not self.world.not_ready_because:
            self._announced = True
            pods, volumes = len(self.world.pods), len(self.world.actual)
            log.info("ready: %d Pods, %d volumes, root %s", pods, volumes, self.host.paths.root)
            systemd.notify(f"READY=1\nSTATUS={pods} Pods, {volumes} volumes")

    def _mounts_changed(self) -> None:
        self.mounts.acknowledge()
        self.reconciler.mounts_changed()

    def _hear_kernel(self, kernel_log: KernelLog) -> None:
        for heard in kernel_log.read():
            self._post(ServerHeard(time.time(), heard.server, heard.silent))

    def _reload(self) -> str:
        """Run on a thread of the API: check the new set of packages, then let the main thread execute anew."""
        broken = reload.check(self.world.plugins, self.config.reload_check_deadline)
        self._post(Ask(self._begin_reload))
        found = f"still broken: {'; '.join(broken)}" if broken else "the new set of packages loads"
        return f"{found}; the daemon executes itself anew as soon as no operation runs"

    def _begin_reload(self) -> None:
        self.reconciler.stop_admitting(self._execute_anew)

    def _execute_anew(self) -> None:
        self._stop_services()
        self.world.events.close()
        reload.execute(self.lock, self.listener.fileno())

    def _stop_services(self) -> None:
        for service in self.services:
            service.stop()


if __name__ == "__main__":
    main()
