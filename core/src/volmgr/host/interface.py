"""The host as plugins see it: small services, each a protocol with a real and a fake implementation.

Every verb is idempotent: it states what must be true afterwards. Errors are those of `volmgr.errors`;
a missing thing that was to be removed is success.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, Self, TypeVar, cast

from volmgr.errors import SpecError
from volmgr.host.atomic import AtomicWriter
from volmgr.host.empty_dirs import EmptyDirs
from volmgr.host.filesystems import FileSystems
from volmgr.host.paths import Paths
from volmgr.model.objects import ServiceAccount
from volmgr.model.payload import Payload
from volmgr.model.pod import Pod
from volmgr.model.tokens import Token

T = TypeVar("T")

HELPER_DEADLINE = 120.0
"""Seconds that an executed helper may take when its caller says nothing; as long as an operation, by default."""


@dataclass(frozen=True, slots=True)
class MountEntry:
    """One line of the mount table, decoded.

    `mount_id` is the reused 31-bit id of mountinfo; `root` is the path within the file system that is mounted
    here; `deleted` says that this path was deleted (`//deleted` in mountinfo).
    """

    mount_id: int
    parent_id: int
    device: str
    root: str
    target: Path
    options: tuple[str, ...]
    fstype: str
    source: str
    super_options: tuple[str, ...] = ()
    propagation: tuple[str, ...] = ()
    deleted: bool = False

    @property
    def read_only(self) -> bool:
        """Say whether the mount or its file system is read-only."""
        return "ro" in self.options or "ro" in self.super_options


@dataclass(frozen=True, slots=True)
class FileSystem:
    """What statfs says: type name as in mount(8) (`tmpfs`, `ext`, or `0x…` when unknown) and sizes in bytes."""

    type: str
    size: int
    available: int
    inodes: int = 0
    inodes_free: int = 0


@dataclass(frozen=True, slots=True)
class FileInfo:
    """What lstat or stat says; `kind` is one of directory, file, symlink, socket, fifo, char, block."""

    kind: str
    mode: int
    uid: int
    gid: int
    size: int
    device: int
    inode: int
    rdev: int = 0


@dataclass(frozen=True, slots=True)
class Identity:
    """Proof that a path is what it was: its unique mount id if it is a mount, else its device and inode."""

    mount: int | None
    device: int
    inode: int


class Mounts(Protocol):
    """Mounting and unmounting; local types by system call, network and FUSE types by a killable helper."""

    def table(self) -> tuple[MountEntry, ...]:
        """Read the whole mount table, oldest mount first."""
        ...

    def below(self, path: Path) -> tuple[MountEntry, ...]:
        """Give the mounts at or below `path`, deepest and newest first."""
        ...

    def read_only_below(self, path: Path) -> Mapping[str, bool]:
        """Give the targets of all mounts at or below `path`, and whether each is read-only; quick on long tables."""
        ...

    def is_mount_point(self, path: Path) -> bool:
        """Say whether `path` itself is the root of a mount (bind mounts too); a missing path is none."""
        ...

    def entry(self, path: Path) -> MountEntry | None:
        """Give the topmost mount at exactly `path`."""
        ...

    def ensure_mounted(
        self,
        target: Path,
        fstype: str,
        *,
        source: str = "",
        options: Sequence[str] = (),
        sensitive: Sequence[str] = (),
        deadline: float | None = None,
    ) -> None:
        """Mount a file system on `target` unless something is mounted there; `options` as in mount(8).

        `sensitive` are further options, which no message, log or command line shows. `deadline` is in seconds from
        now. Raises OperationError; UncertainError when the deadline passed.
        """
        ...

    def ensure_bound(self, source: Path, target: Path, *, options: Sequence[str] = ()) -> None:
        """Bind `source` on `target` unless it is already there; `ro` and the like are applied to the bind only."""
        ...

    def remount(self, target: Path, options: Sequence[str]) -> None:
        """Change the options of a mounted file system."""
        ...

    def unmount(self, target: Path, *, lazy: bool = False, force: bool = False, deadline: float | None = None) -> None:
        """Unmount everything stacked on `target`; not mounted is success. Raises BusyError naming the holders.

        `deadline` is in seconds from now, for types that wait for a server; past it UncertainError is raised.
        """
        ...

    def unmount_below(self, path: Path) -> None:
        """Unmount all mounts at and below `path`, deepest first."""
        ...

    def file_system(self, path: Path) -> FileSystem:
        """Ask statfs about `path`; raises OperationError when it is missing."""
        ...


class Files(Protocol):
    """Files and directories below the root directory (and host paths that a manifest names)."""

    def info(self, path: Path, *, follow: bool = False) -> FileInfo | None:
        """Stat `path`; None when it (or, following, its target) is missing."""
        ...

    def identity(self, path: Path) -> Identity | None:
        """Give the identity of `path`, not following a last symbolic link; None when missing."""
        ...

    def names(self, path: Path) -> tuple[str, ...]:
        """List a directory, sorted; a missing one is empty."""
        ...

    def ensure_directory(self, path: Path, mode: int, *, exact: bool = False, parents_mode: int = 0o750) -> bool:
        """Make a directory and its parents; `exact` also sets the mode of one that exists. True when made."""
        ...

    def ensure_file(self, path: Path, mode: int = 0o640) -> bool:
        """Make an empty regular file in an existing directory, never through a symbolic link; True when made."""
        ...

    def read(self, path: Path, limit: int = 1 << 20) -> bytes | None:
        """Read a small file; None when missing. Raises OperationError when longer than `limit` bytes."""
        ...

    def write(self, path: Path, data: bytes, mode: int = 0o600, *, durable: bool = False) -> None:
        """Replace a file in an existing directory at once (temporary name, rename); `durable` syncs both."""
        ...

    def ensure_symlink(self, path: Path, target: str) -> None:
        """Make or replace a symbolic link at once; refuses to replace anything else."""
        ...

    def read_link(self, path: Path) -> str | None:
        """Read a symbolic link; None when it is missing or none."""
        ...

    def links(self, path: Path) -> Mapping[str, str | None]:
        """Give the names in a directory, each with what it links to (None: it is no link); missing is empty."""
        ...

    def make_tree(self, path: Path, files: Payload) -> None:
        """Make a new directory (0755, as all in it) of new files, each with exactly its mode and owner.

        What is there is refused. A failure may leave a part of it.
        """
        ...

    def has_tree(self, path: Path, files: Payload) -> bool:
        """Say whether a directory holds exactly these files, with their content, modes and owners, and no more.

        An owner or group of -1 is that of the directory.
        """
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Rename within one file system."""
        ...

    def remove_file(self, path: Path, *, durable: bool = False) -> None:
        """Remove a file or symbolic link; missing is success. `durable` syncs the directory."""
        ...

    def remove_directory(self, path: Path) -> bool:
        """Remove an empty directory; missing is success, False when it is not empty, a mount, or none."""
        ...

    def remove_tree(self, path: Path, *, cancelled: Callable[[], bool] = ...) -> None:
        """Remove a tree that we made: never across a mount, never through a symbolic link.

        Raises BusyError when something is mounted in it.
        """
        ...

    def discard(self, path: Path) -> None:
        """Take a tree away at once: renamed into the trash and deleted in the background, also after a crash.

        A tree on another file system than the trash is removed in place. Raises BusyError as remove_tree does.
        """
        ...

    def resume_discards(self) -> None:
        """Delete in the background what a crash left in the trash; for the daemon that holds the root's lock."""
        ...

    def chmod(self, path: Path, mode: int) -> None:
        """Set the mode, never through a symbolic link."""
        ...

    def chown(self, path: Path, uid: int, gid: int) -> None:
        """Set the owner (-1: as it is), never through a symbolic link."""
        ...


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What an executed command said."""

    exit_code: int
    stdout: str
    stderr: str


class Commands(Protocol):
    """Executed helpers, each in a session of its own, with a deadline that kills its process group."""

    def run(
        self,
        argv: Sequence[str],
        *,
        deadline: float = HELPER_DEADLINE,
        accept: Sequence[int] = (0,),
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        cancelled: Callable[[], bool] | None = None,
        told: Callable[[str], None] | None = None,
    ) -> CommandResult:
        """Run a command; `deadline` in seconds, `accept` the exit codes that are success.

        `told` gets each line that it writes to its output, when it is written.
        Raises CommandError for another exit code, OperationError when it is not installed, UncertainError
        when the deadline passed (the process group was killed).
        """
        ...

    def find(self, name: str) -> Path | None:
        """Give the path of an installed command."""
        ...


class BlockDevices(Protocol):
    """Loop devices and what is on a block device."""

    def attach_loop(self, backing: Path, *, read_only: bool = False) -> Path:
        """Give the loop device of a file or device, attaching one if there is none."""
        ...

    def find_loops(self, backing: Path) -> tuple[Path, ...]:
        """Find the loop devices of a backing file by device and inode (symlinked roots and deleted files too)."""
        ...

    def detach_loop(self, device: Path) -> None:
        """Detach a loop device; detached is success."""
        ...

    def size(self, device: Path) -> int:
        """Give the size of a block device in bytes."""
        ...

    def is_free(self, device: Path) -> bool:
        """Say whether the device can be opened exclusively (O_EXCL); a missing device or none is free."""
        ...

    def refresh_size(self, device: Path) -> None:
        """Let a loop device see that its backing file grew."""
        ...

    def read(self, device: Path, offset: int, length: int) -> bytes:
        """Read from a block device; less than `length` bytes only at its end. Raises OperationError."""
        ...

    def identity(self, device: Path) -> str:
        """Name a block device as no other of this boot is named, not even one that gets its number later."""
        ...


class OwnershipProgress(str):
    """What a walk over a volume's files says each second that it gets on: entries done, changed, and how fast.

    The core makes an event of it when the walk lasts, and does not take the operation for stuck.
    """

    __slots__ = ()


class Ownership(Protocol):
    """Giving a volume's files to the Pod's fsGroup."""

    def apply(
        self,
        path: Path,
        group: int,
        *,
        policy: str = "Always",
        read_only: bool = False,
        cancelled: Callable[[], bool] = ...,
        progress: Callable[[str], None] = ...,
    ) -> None:
        """Set group and mode bits (behaviours §3.2), children first, root last; stops when cancelled.

        Raises TransientError when cancelled, OperationError naming the path and the policy that would avoid it.
        """
        ...


class Subpaths(Protocol):
    """Handing a part of a volume to a container, whatever other containers do in the volume meanwhile."""

    def bind(self, volume: Path, sub_path: str, target: Path, *, create: bool = True) -> bool:
        """Bind what `sub_path` names in a volume's directory on `target`; False when it was bound there already.

        Links that stay in the volume are followed, absolute ones too. What is missing is made, with the mode of the
        volume's directory, unless `create` is False. Something else that is mounted on `target` is taken away.
        Raises SpecError for a path that is empty, absolute or has `..`, OperationError for what leads out of the
        volume or is missing.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacking:
    """What one tar archive, plain or compressed by gzip, must be, and what it may become.

    `name` is for messages (`layer 2 of image …`). `digest` and `size` are of the file, `content_digest` of the tar
    archive in it (`sha256:0f…`; empty, or None: not compared). `whiteouts`: names may hide what lower layers have.
    The limits are bytes of the tar archive, and entries.
    """

    name: str
    digest: str = ""
    size: int | None = None
    content_digest: str = ""
    whiteouts: bool = False
    bytes_limit: int
    entries_limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """What became of an archive: bytes of its files, its entries, and bytes of the tar archive itself."""

    content: int
    entries: int
    archive: int


class Archives(Protocol):
    """Tar archives from anywhere, also from those who mean harm."""

    def unpack(
        self,
        archive: Path,
        target: Path,
        what: Unpacking,
        *,
        cancelled: Callable[[], bool] = ...,
        progress: Callable[[str], None] = ...,
    ) -> Unpacked:
        """Unpack an archive over what an existing directory below the root holds, and sync it to disk.

        Nothing outside the directory is touched; owners, modes, times and `user.` attributes are those of the
        archive; devices and fifos are refused. A failure leaves a part of it. Raises OperationError naming the archive
        and the entry, TransientError when cancelled.
        """
        ...

    def verify(self, archive: Path, what: Unpacking, *, cancelled: Callable[[], bool] = ...) -> None:
        """Compare a file with its digest and size; raises OperationError, TransientError when cancelled."""
        ...


class Tokens(Protocol):
    """Who issues service account tokens: a key of our own, or an API server."""

    def issue(
        self,
        pod: Pod,
        *,
        audience: str,
        expiration_seconds: int,
        account: ServiceAccount | None = None,
        held: str = "",
    ) -> Token:
        """Give a token of the Pod's service account, bound to the Pod; an empty audience is the issuer's own.

        `account` is the ServiceAccount object, if there is one. `held` is the token that there is: it is given back
        while it says the same and is not due. Raises SpecError when nobody issues tokens here or the life is too
        short, OperationError when the issuer failed, PluginError when something is not installed.
        """
        ...


class NoTokens:
    """Issues nothing, and says what to configure."""

    def issue(
        self,
        pod: Pod,
        *,
        audience: str,
        expiration_seconds: int,
        account: ServiceAccount | None = None,
        held: str = "",
    ) -> Token:
        """Refuse."""
        del audience, expiration_seconds, account, held
        message = (
            f"pod {pod.key} asks for a service account token, and nobody issues any here;"
            " set token_issuer in the configuration, such as token_issuer: https://issuer.example"
        )
        raise SpecError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """What the running kernel and machine can do; read once."""

    boot_id: str
    memory: int
    processors: int = 1
    tmpfs_noswap: bool = False
    huge_page_sizes: tuple[int, ...] = ()
    user_namespace: bool = False
    container_label: str = ""
    """The label of containers' files (`system_u:object_r:container_file_t:s0`); empty: the node has no SELinux."""


@dataclass(frozen=True, slots=True)
class Host:
    """Everything a plugin may touch."""

    paths: Paths
    mounts: Mounts
    files: Files
    commands: Commands
    block: BlockDevices
    ownership: Ownership
    subpaths: Subpaths
    archives: Archives
    kernel: Kernel
    clock: Callable[[], float] = field(repr=False)
    tokens: Tokens = field(default_factory=NoTokens)
    settings: Mapping[type, object] = field(default_factory=lambda: MappingProxyType({}))
    """What the configuration says, by the dataclass that it was read into."""

    @property
    def atomic(self) -> AtomicWriter:
        """Who writes the files of a volume at once."""
        return AtomicWriter(self.files)

    @property
    def empty_dirs(self) -> EmptyDirs:
        """Who makes directories that live as long as their Pod."""
        return EmptyDirs(self)

    @property
    def filesystems(self) -> FileSystems:
        """Who formats, mounts and grows the file systems of block devices."""
        return FileSystems(self)

    def settings_of(self, cls: type[T]) -> T:
        """Give what the configuration says for one dataclass; its defaults where it says nothing."""
        return cast("T", self.settings[cls]) if cls in self.settings else cls()

    def with_tokens(self, tokens: Tokens) -> Self:
        """Give this host with another issuer of tokens."""
        return replace(self, tokens=tokens)

    def with_settings(self, *settings: object) -> Self:
        """Give this host with other settings."""
        return replace(self, settings=MappingProxyType({type(one): one for one in settings}))
