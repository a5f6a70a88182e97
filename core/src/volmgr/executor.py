"""Performs jobs: one hook of one type each, its ending classified. No state, no threads."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from volmgr.actual import Facts, settle
from volmgr.errors import (
    BusyError,
    DeviceLostError,
    OperationError,
    PluginError,
    SpecError,
    TransientError,
    UncertainError,
    says_silent,
)
from volmgr.helper_records import HelperRecords
from volmgr.host.noted import noted
from volmgr.jobs import Job, Result, facts_of, next_mount
from volmgr.journal import Journal
from volmgr.operations import Ending, Verb
from volmgr.pod_steps import PodSteps
from volmgr.volume_steps import VolumeSteps

if TYPE_CHECKING:
    from volmgr.host.interface import Host

log = logging.getLogger("volmgr.executor")


class Executor:
    """Performs jobs on a host."""

    def __init__(
        self,
        host: Host,
        wall: Callable[[], float] = time.time,
        mount_options: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    ) -> None:
        """Use the host's services; `wall` gives Unix time in seconds, `mount_options` are those of inline volumes."""
        self._journal = Journal(host)
        self._helpers = HelperRecords(host, wall)
        self._volume = VolumeSteps(host, self._journal)
        self._pod = PodSteps(host, self._journal, wall, mount_options)

    def perform(self, job: Job) -> Result:
        """Perform a job and say how it went; never raises."""
        started = time.monotonic()
        with noted(partial(self._helpers.note, job.held, needed=job.operation.verb.is_making)) as notebook:
            result = self._classified(job)
        for helper in notebook.stuck:
            job.progress(
                f"process {helper.pid} ({helper.name}) cannot be killed: it waits in the kernel, probably for a server"
                " that does not answer"
            )
            helper.ended.wait()  # until then nobody else may touch what it may still change
        if result.ending in {Ending.FAILED, Ending.UNCHANGED} and job.operation.verb.is_making:
            self._take_back(job, result)
        return replace(result, seconds=time.monotonic() - started)

    def _classified(self, job: Job) -> Result:
        facts = facts_of(job)
        making = job.operation.verb.is_making
        try:
            return Result(job=job, ending=Ending.DONE, facts=self._act(job, facts))
        except TransientError as error:
            return Result(
                job=job, ending=Ending.UNCHANGED, facts=facts, error=str(error), waits_for=error.waits_for or str(error)
            )
        except (SpecError, PluginError) as error:
            ending = Ending.UNCHANGED if making else Ending.UNCERTAIN
            final = making and isinstance(error, SpecError)
            return Result(job=job, ending=ending, facts=facts, error=str(error), final=final)
        except BusyError as error:
            result = Result(job=job, ending=Ending.FAILED, facts=facts, error=str(error))
            if job.operation.verb is not Verb.EXPAND:
                return result
            return replace(result, final=True, waits_for=next_mount(job.operation.volume))
        except OperationError as error:
            facts = replace(facts, device_lost=isinstance(error, DeviceLostError))
            silent = says_silent(error)
            return Result(job=job, ending=Ending.FAILED, facts=facts, error=str(error), silent=silent)
        except UncertainError as error:
            silent = says_silent(error)
            return Result(job=job, ending=Ending.UNCERTAIN, facts=facts, error=str(error), silent=silent)
        except BaseException as error:  # a plugin's bug: whatever it left behind is unknown
            log.exception("%s of %s: unexpected error", job.operation.verb, job.operation.volume)
            text = f"unexpected {type(error).__name__}: {error} (a bug of {job.type.origin}; the log has its traceback)"
            return Result(job=job, ending=Ending.UNCERTAIN, facts=facts, error=text)

    def _take_back(self, job: Job, result: Result) -> None:
        """Leave no record of a making that left nothing, or it would be unmade after the next start."""
        name, uid = job.operation.volume, job.operation.pod_uid
        left = settle(job.actual, job.operation, result.ending, result.facts)
        try:
            match job.operation.verb:
                case Verb.MOUNT if left is None or uid not in left.mounts:
                    self._journal.forget_mount(uid, job.mount.spec.name)
                case Verb.ATTACH | Verb.MOUNT_DEVICE if left is None:
                    self._journal.forget_volume(name)
                case Verb.ATTACH | Verb.MOUNT_DEVICE if left is not None:
                    self._volume.record(job, attached=left.attached, device=left.device)
                case _:
                    pass
        except OperationError:  # then the record says uncertain, which is safe
            log.exception("%s of %s failed, and its record cannot be taken back", job.operation.verb, name)

    def _act(self, job: Job, facts: Facts) -> Facts:  # noqa: PLR0911 - one per verb
        match job.operation.verb:
            case Verb.ATTACH:
                return self._volume.attach(job, facts)
            case Verb.VERIFY_ATTACHED:
                return replace(facts, device_path=job.attached_path)
            case Verb.WAIT_FOR_ATTACH:
                return self._volume.wait_for_attach(job, facts)
            case Verb.MOUNT_DEVICE:
                return self._volume.mount_device(job, facts)
            case Verb.MOUNT:
                return self._pod.mount(job, facts)
            case Verb.EXPAND:
                return self._volume.expand(job, facts)
            case Verb.UNMOUNT:
                return self._pod.unmount(job, facts)
            case Verb.UNMOUNT_DEVICE:
                return self._volume.unmount_device(job, facts)
            case Verb.DETACH:
                return self._volume.detach(job, facts)
