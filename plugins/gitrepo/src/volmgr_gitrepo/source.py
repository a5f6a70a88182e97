"""What a manifest and the configuration say of a gitRepo volume, and which of it is refused unseen. Runs nothing."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from volmgr.plugin import Host, PluginError, SpecError

REMOTE = frozenset({"https", "http", "git"})
"""What may be allowed: protocols that need no key of the node's. ssh does, and is never spoken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitRepoSource:
    """`gitRepo` of a Pod volume: what to clone, what to check out of it, and where in the volume it goes."""

    repository: str
    revision: str = ""
    directory: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitRepoSettings:
    """`plugins: {kubernetes.io/git-repo: …}` of the configuration; as they are, they allow nothing."""

    enabled: bool = False
    """Kubelet's gate GitRepoVolumeDriver, off since 1.33."""
    protocols: tuple[str, ...] = ("https",)
    """Of https, http and git."""
    local_below: tuple[str, ...] = field(default=(), metadata={"name": "local_below"})
    """Directories of the node whose repositories any Pod may clone; none by default (CVE-2025-1767)."""
    clone_seconds: float = field(default=120.0, metadata={"name": "clone_seconds"})
    """What git may take, together; the operation's own deadline holds, too."""

    def __post_init__(self) -> None:
        """Refuse what would allow more than it seems."""
        if unknown := sorted(set(self.protocols) - REMOTE):
            raise ValueError(f"protocols has {', '.join(unknown)}; write some of https, http and git")
        for top in map(Path, self.local_below):
            if not top.is_absolute() or ".." in top.parts or top == Path("/"):
                raise ValueError(f"local_below has {top}; write a directory such as /srv/git")
        if self.clone_seconds <= 0:
            raise ValueError("clone_seconds is 0; write how long, such as 120")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A source that was looked at: safe to hand to git, by the one protocol that it needs."""

    repository: str
    protocol: str
    revision: str
    directory: str

    @property
    def at_root(self) -> bool:
        """Say whether the clone is the volume itself."""
        return self.directory == "."


def checked(source: GitRepoSource, settings: GitRepoSettings, host: Host) -> Wanted:
    """Refuse what could lead git astray; raises PluginError when the type is off, SpecError for the rest."""
    if not settings.enabled:
        message = (
            "gitRepo volumes are off on this node; let an init container clone into an emptyDir, or set plugins:"
            " {kubernetes.io/git-repo: {enabled: true}} in the configuration"
        )
        raise PluginError(message)
    for name, text in (
        ("repository", source.repository),
        ("revision", source.revision),
        ("directory", source.directory),
    ):
        _refuse_option(name, text)
    return Wanted(
        source.repository,
        _protocol(source.repository, settings, host),
        source.revision,
        _directory(source.directory, with_revision=bool(source.revision)),
    )


def _refuse_option(name: str, text: str) -> None:
    if text.startswith("-"):
        raise SpecError(f"gitRepo.{name} {text!r} begins with a dash: git would take it for an option")
    if not text.isprintable():
        raise SpecError(f"gitRepo.{name} has a character that cannot be printed; leave it out")


def _directory(text: str, *, with_revision: bool) -> str:
    """Give where in the volume the clone goes: empty for a directory that git names, `.` for the volume itself."""
    if not text:
        return ""
    path = PurePosixPath(posixpath.normpath(text))
    if path.is_absolute() or ".." in PurePosixPath(text).parts:
        raise SpecError(f"gitRepo.directory {text!r} leads out of the volume; write a name")
    if any(_is_git(part) for part in path.parts):
        # CVE-2024-10220: the cloned files would be taken for the repository, with their hooks and configuration.
        raise SpecError(f"gitRepo.directory {text!r} names git's own directory; write another name")
    if with_revision and len(path.parts) > 1:
        raise SpecError(f"gitRepo.directory {text!r}: with a revision it must not contain a slash")
    return str(path)


def _is_git(name: str) -> bool:
    """Say whether some file system takes a name for `.git`."""
    plain = "".join(filter(str.isascii, name)).rstrip(". ").partition(":")[0].lower()
    return plain in {".git", "git~1"}


def _protocol(repository: str, settings: GitRepoSettings, host: Host) -> str:
    """Give the protocol that a repository is reached by, if it is an allowed one; raises SpecError."""
    scheme, separator, rest = repository.partition("://")
    if separator and scheme in settings.protocols:
        _refuse_credentials(scheme, rest)
        return scheme
    if separator and scheme == "file":
        if "%" in rest:  # git would decode it: %2e%2e leads out of every directory
            raise SpecError("gitRepo.repository: a file:// address must have no % in it; write the plain path")
        return _local(rest, settings, host)
    if not separator and repository.startswith("/"):
        return _local(repository, settings, host)
    allowed = [f"{each}://" for each in settings.protocols]
    if separator:
        what = f"{scheme}://" if scheme.isalnum() else "this kind of address"
        message = f"gitRepo.repository: {what} is not allowed on this node, but {' and '.join(allowed) or 'nothing'}"
        raise SpecError(f"{message}; its owner can allow https, http and git in the configuration")
    # host:path of ssh, ext::command and other helpers of git, a path that depends on where git runs
    raise SpecError(f"gitRepo.repository: write an address that begins with {' or '.join(allowed) or 'a slash'}")


def _refuse_credentials(scheme: str, rest: str) -> None:
    authority = rest.partition("/")[0]
    if "@" in authority:
        raise SpecError(
            f"gitRepo.repository: {scheme}://…@{authority.rpartition('@')[2]} has credentials in it, which every"
            " user of the node could read while git runs; clone private repositories in an init container"
        )
    if not authority:
        raise SpecError(f"gitRepo.repository: {scheme}:// without a host")


def _local(path: str, settings: GitRepoSettings, host: Host) -> str:
    """Let a repository of the node through only where its owner said so: another Pod's is on the node, too."""
    given = Path(path)
    tops = [Path(top) for top in settings.local_below]
    top = next((each for each in tops if given.is_relative_to(each)), None)
    ours = given.is_relative_to(host.paths.root) or host.paths.root.is_relative_to(given)
    if top is None or ours or ".." in given.parts:
        raise SpecError(
            "gitRepo.repository: repositories of the node itself are not allowed here (CVE-2025-1767);"
            " its owner can name directories of them as local_below in the configuration"
        )
    above = (each for each in given.parents if each != top and each.is_relative_to(top))
    for each in (*_places(given), *above):
        info = host.files.info(each)
        if info is not None and info.kind == "symlink":
            raise SpecError(f"gitRepo.repository: {each} is a symbolic link; write where it leads")
        if info is not None and info.kind != "directory":
            raise SpecError(f"gitRepo.repository: {each} is a {info.kind}, which may lead elsewhere; write a directory")
    return "file"


def _places(given: Path) -> tuple[Path, ...]:
    """Give all that git takes a path for; in each place a file can name another repository (a gitfile)."""
    with_suffix = given.with_name(f"{given.name}.git")
    return (given, given / ".git", with_suffix, with_suffix / ".git")
