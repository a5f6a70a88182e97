"""What a manifest and the configuration say of a gitRepo volume, and which of it is refused unseen. Runs nothing."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from volmgr.plugin import Host, PluginError, SpecError

REMOTE = frozenset({"https", "http", "git"})
"""What may be allowed: protocols that need no key of the node's. ssh does, and is never spoken."""
LOCAL = "file"
"""The protocol of a repository that is on the node itself."""


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


CONFIGURATION = "the configuration (the file of volmgrd's --config; then run volmgr plugins reload)"
_ADDRESSES = "https://, http:// or git://, or with a slash"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A source that was looked at: it cannot lead git astray. `path` is that of a repository of the node, or empty."""

    repository: str
    protocol: str
    path: str
    revision: str
    directory: str

    @property
    def at_root(self) -> bool:
        """Say whether the clone is the volume itself."""
        return self.directory == "."


def checked(source: GitRepoSource) -> Wanted:
    """Refuse what no node would clone; raises SpecError. Pure."""
    for name, text in (
        ("repository", source.repository),
        ("revision", source.revision),
        ("directory", source.directory),
    ):
        _refuse_option(name, text)
    protocol, path = _address(source.repository)
    directory = _directory(source.directory, with_revision=bool(source.revision))
    return Wanted(source.repository, protocol, path, source.revision, directory)


def allowed(wanted: Wanted, settings: GitRepoSettings, host: Host) -> Wanted:
    """Refuse what this node does not allow; raises PluginError when the type is off, SpecError for the rest."""
    if not settings.enabled:
        message = (
            "gitRepo volumes are off on this node; let an init container clone into an emptyDir, or set plugins:"
            f" {{kubernetes.io/git-repo: {{enabled: true}}}} in {CONFIGURATION}"
        )
        raise PluginError(message)
    if wanted.protocol == LOCAL:
        _refuse_foreign(wanted.path, settings, host)
    elif wanted.protocol not in settings.protocols:
        names = " and ".join(f"{each}://" for each in settings.protocols) or "nothing"
        message = f"gitRepo.repository: {wanted.protocol}:// is not allowed on this node, but {names}"
        raise SpecError(f"{message}; its owner can allow https, http and git as protocols in {CONFIGURATION}")
    return wanted


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


def _address(repository: str) -> tuple[str, str]:
    """Give the protocol by which a repository is reached, and its path if it is on the node; raises SpecError."""
    scheme, separator, rest = repository.partition("://")
    if separator and scheme in REMOTE:
        _refuse_credentials(scheme, rest)
        return scheme, ""
    if separator and scheme == LOCAL:
        if "%" in rest:  # git would decode it: %2e%2e leads out of every directory
            raise SpecError("gitRepo.repository: a file:// address must have no % in it; write the plain path")
        return LOCAL, _inside(rest)
    if not separator and repository.startswith("/"):
        return LOCAL, _inside(repository)
    if separator:
        what = f"{scheme}://" if scheme.isalnum() else "this kind of address"
        raise SpecError(f"gitRepo.repository: {what} is never spoken; write an address that begins with {_ADDRESSES}")
    # host:path of ssh, ext::command and other helpers of git, a path that depends on where git runs
    raise SpecError(f"gitRepo.repository: write an address that begins with {_ADDRESSES}")


def _inside(path: str) -> str:
    if not path.startswith("/") or ".." in path.split("/"):
        raise SpecError("gitRepo.repository: write an absolute path without '..'")
    return path


def _refuse_credentials(scheme: str, rest: str) -> None:
    authority = rest.partition("/")[0]
    if "@" in authority:
        raise SpecError(
            f"gitRepo.repository: {scheme}://…@{authority.rpartition('@')[2]} has credentials in it, which every"
            " user of the node could read while git runs; clone private repositories in an init container"
        )
    if not authority:
        raise SpecError(f"gitRepo.repository: {scheme}:// without a host")


def _refuse_foreign(path: str, settings: GitRepoSettings, host: Host) -> None:
    """Let a repository of the node through only where its owner said so: another Pod's is on the node, too."""
    given = Path(path)
    tops = [Path(top) for top in settings.local_below]
    top = next((each for each in tops if given.is_relative_to(each)), None)
    ours = given.is_relative_to(host.paths.root) or host.paths.root.is_relative_to(given)
    if top is None or ours:
        raise SpecError(
            "gitRepo.repository: repositories of the node itself are not allowed here (CVE-2025-1767);"
            f" its owner can name directories of them as local_below in {CONFIGURATION}"
        )
    above = (each for each in given.parents if each != top and each.is_relative_to(top))
    for each in (*_places(given), *above):
        info = host.files.info(each)
        if info is not None and info.kind == "symlink":
            raise SpecError(f"gitRepo.repository: {each} is a symbolic link; write where it leads")
        if info is not None and info.kind != "directory":
            raise SpecError(f"gitRepo.repository: {each} is a {info.kind}, which may lead elsewhere; write a directory")


def _places(given: Path) -> tuple[Path, ...]:
    """Give all that git takes a path for; in each place a file can name another repository (a gitfile)."""
    with_suffix = given.with_name(f"{given.name}.git")
    return (given, given / ".git", with_suffix, with_suffix / ".git")
