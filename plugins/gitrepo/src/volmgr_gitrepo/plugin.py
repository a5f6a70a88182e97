"""gitRepo: a clone of a git repository in a directory that lives as long as its Pod. Off unless it is enabled.

Behaviour: `pkg/volume/git_repo` of kubelet 1.37, with its ready marker; the content lies in an emptyDir on disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from volmgr.plugin import (
    Applies,
    Facets,
    Found,
    Handles,
    Host,
    Measurable,
    Measure,
    Measured,
    Mount,
    Mounted,
    NotOurs,
    Objects,
    OperationError,
    Pod,
    PodDirectory,
    Reconstructed,
    SpecError,
    Unmount,
    Unmounted,
    VolumePlugin,
    VolumeSpec,
    Where,
    taken_back,
    uncertain_if_it_fails,
)
from volmgr_gitrepo.git import Git
from volmgr_gitrepo.source import GitRepoSettings, GitRepoSource, Wanted, allowed, checked

STAGING = ".volmgr-clone"
"""Where in the volume git works; what is in it is moved up when it is whole."""
_MARKER_MODE = 0o750
_STAGING_MODE = 0o755


class GitRepo(VolumePlugin[GitRepoSource], Measurable):
    """Give a Pod a clone of a repository, made once."""

    name = "kubernetes.io/git-repo"
    api_version = 1
    handles = (Handles("gitRepo", where=Where.POD, source=GitRepoSource),)
    settings = GitRepoSettings

    def volume_name(self, spec: VolumeSpec[GitRepoSource]) -> str:
        source = spec.source
        return f"{source.repository}:{source.revision}:{source.directory}"

    def facets(self, spec: VolumeSpec[GitRepoSource], objects: Objects) -> Facets:
        del spec, objects
        return Facets(fs_group=Applies.PLUGIN)

    def check(self, spec: VolumeSpec[GitRepoSource], pod: Pod | None) -> None:
        del pod
        checked(spec.source)

    def mount(self, request: Mount[GitRepoSource], host: Host) -> Mounted:
        settings = host.settings_of(GitRepoSettings)
        wanted = allowed(checked(request.spec.source), settings, host)
        markers = _Markers.of(host, request.pod.uid, request.spec.name)
        _refuse_what_others_left(request.target, markers, host)
        if _is_stale(request, host):
            markers.remove(host)
        ready, cloned = (host.files.info(each) is not None for each in (markers.ready, markers.cloned))
        host.empty_dirs.set_up(_directory_of(request), cancelled=request.cancelled, progress=request.progress)
        if ready:
            return Mounted()
        if not cloned:
            undo = partial(_remove, request.pod.uid, request.spec.name, request.target, host)
            with taken_back(undo, f"mounting {request.target}"):  # so that the next try begins anew
                until = min(request.deadline, host.clock() + settings.clone_seconds)
                _clone(wanted, request, Git(host, wanted.protocol, until, request.cancelled))
                host.files.ensure_directory(markers.cloned.parent, _MARKER_MODE, exact=True)
                host.files.ensure_file(markers.cloned)
        with uncertain_if_it_fails():
            _finish(request, markers, host)
        return Mounted()

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        _remove(request.pod_uid, request.spec_name, request.target, host)
        return Unmounted()

    def reconstruct(self, found: Found, host: Host) -> Reconstructed[GitRepoSource]:
        markers = _Markers.of(host, found.pod_uid, found.spec_name)
        managed = host.empty_dirs.is_ready(found.pod_uid, found.spec_name, wrapped=True) or markers.any(host)
        if not managed and host.files.names(found.path):
            raise NotOurs(f"{found.path} holds data and has no ready marker")
        source = GitRepoSource(repository="")  # the disk does not say which it was
        return Reconstructed(spec=VolumeSpec(name=found.spec_name, type="gitRepo", source=source))

    def measure(self, request: Measure, host: Host) -> Measured:
        usage = host.empty_dirs.measure(request.path, cancelled=request.cancelled, deadline=request.deadline)
        return Measured.of(usage)


@dataclass(frozen=True, slots=True)
class _Markers:
    """Empty files: `ready` is kubelet's, `cloned` says that all in the volume's directory is what git gave us."""

    ready: Path
    cloned: Path

    @classmethod
    def of(cls, host: Host, pod_uid: str, spec_name: str) -> _Markers:
        top = host.paths.pod_plugin(pod_uid, GitRepo.name, spec_name)
        return cls(top / "ready", top / "cloned")

    def any(self, host: Host) -> bool:
        return any(host.files.info(each) is not None for each in (self.ready, self.cloned))

    def remove(self, host: Host) -> None:
        for each in (self.ready, self.cloned):
            host.files.remove_file(each)
        host.files.remove_directory(self.ready.parent)


def _remove(pod_uid: str, spec_name: str, target: Path, host: Host) -> None:
    # The directory first: markers without one are seen to be stale, a directory without markers may be anybody's.
    host.empty_dirs.tear_down(pod_uid, spec_name, target, wrapped=True)
    _Markers.of(host, pod_uid, spec_name).remove(host)


def _directory_of(request: Mount[GitRepoSource]) -> PodDirectory:
    return PodDirectory(
        pod=request.pod, name=request.spec.name, target=request.target, options=request.options, wrapped=True
    )


def _refuse_what_others_left(target: Path, markers: _Markers, host: Host) -> None:
    """Refuse a directory that we did not fill; what is in it may be somebody's data. Raises OperationError."""
    foreign = [name for name in host.files.names(target) if name != STAGING]
    if foreign and not markers.any(host):
        raise OperationError(
            f"unexpected directory contents: {target} holds {foreign[0]!r}, which is no finished clone of ours;"
            " move it away if nobody needs it"
        )


def _is_stale(request: Mount[GitRepoSource], host: Host) -> bool:
    """Say whether the directory that the markers speak of is gone; one that its Pod has emptied is not."""
    if host.files.names(request.target):
        return False
    there = host.empty_dirs.is_ready(request.pod.uid, request.spec.name, wrapped=True)
    return not there or host.files.info(request.target) is None


def _clone(wanted: Wanted, request: Mount[GitRepoSource], git: Git) -> None:
    """Clone into the staging directory, anew if an earlier one was cut off, and check the revision out."""
    files, staging = git.host.files, request.target / STAGING
    request.progress(f"cloning {wanted.repository}")
    files.remove_tree(staging, cancelled=request.cancelled)
    files.ensure_directory(staging, _STAGING_MODE, exact=True)
    git.clone(wanted.repository, wanted.directory, below=staging)
    if STAGING in files.names(staging):
        raise SpecError(f"gitRepo: the clone would have {STAGING!r} at its top, which is ours; write another directory")
    tree = staging if wanted.at_root else staging / _only_entry(staging, git.host)
    if wanted.revision:
        git.check_out(wanted.revision, tree)


def _only_entry(staging: Path, host: Host) -> str:
    names = host.files.names(staging)
    if len(names) != 1:
        raise OperationError(f"unexpected directory contents: git made {', '.join(names) or 'nothing'} in {staging}")
    return names[0]


def _finish(request: Mount[GitRepoSource], markers: _Markers, host: Host) -> None:
    """Move what was cloned up, give it to the Pod's group, and mark it as ready; may be cut off and repeated."""
    files, target = host.files, request.target
    staging = target / STAGING
    for name in files.names(staging):
        if files.info(target / name) is not None:
            raise OperationError(f"cannot move the clone to {target / name}: something is there")
        files.rename(staging / name, target / name)
    files.remove_directory(staging)
    if request.fs_group is not None:
        host.ownership.apply(target, request.fs_group, cancelled=request.cancelled, progress=request.progress)
    files.rename(markers.cloned, markers.ready)
