"""The files of FakeHost: what `volmgr.host.interface.Files` promises, done on a Machine in memory."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from volmgr.errors import BusyError, OperationError, OverdueError, TransientError
from volmgr.host.interface import FileInfo, Identity
from volmgr.host.paths import Paths
from volmgr.host.trees import DIRECTORY_MODE, Layout, layout
from volmgr.model.payload import Payload, PayloadFile
from volmgr.testing.disks import Node, Place
from volmgr.testing.fake_services import attempt, never, one_at_a_time
from volmgr.testing.machine import Machine, is_below

_SMALL = 64  # what is not larger is deleted at once rather than by way of the trash


@one_at_a_time
@dataclass
class FakeFiles:
    """Files in memory."""

    machine: Machine
    paths: Paths
    hold_trash: bool = False
    """Leave in the trash what was discarded, as if the background deletion had not come to it yet."""

    def info(self, path: Path, *, follow: bool = False) -> FileInfo | None:
        place = self._look(path, follow=follow)
        if place is None:
            return None
        if self.machine.hangs(place[0].source):
            raise OverdueError(f"{path} has not answered in time; see whether its server is reachable")
        return file_info(place[1])

    def identity(self, path: Path) -> Identity | None:
        place = self._look(path)
        if place is None:
            return None
        mount, node = place
        return Identity(mount.unique_id if node is mount.root else None, node.disk.device, node.inode)

    def names(self, path: Path) -> tuple[str, ...]:
        self._refuse_links(path, last=True)
        place = self._look(path, follow=True)
        return () if place is None else tuple(sorted(place[1].children))

    def _look(self, path: Path, *, follow: bool = False) -> Place | None:
        with attempt(f"look at {path}"):
            return self.machine.look(path, follow=follow)

    def _refuse_links(self, path: Path, *, last: bool = False) -> None:
        """Refuse a path below the root that leads through a symbolic link, since containers can write there."""
        if not str(path).startswith(f"{self.paths.root}/"):
            return
        if ".." in path.parts:
            message = f"refused {path}: a path below the root has no .. in it"
            raise OperationError(message)
        with attempt(f"open {path}"), suppress(FileNotFoundError, NotADirectoryError):
            self.machine.find(path, follow=last, links=False)

    def ensure_directory(self, path: Path, mode: int, *, exact: bool = False, parents_mode: int = 0o750) -> bool:
        self._refuse_links(path, last=True)
        with attempt(f"make the directory {path}"):
            made = self._make_directory(path, mode, parents_mode)
            if made or exact:  # whatever the umask is; the parents are subject to it
                self._chmod(path, mode, follow=True)
        return made

    def _chmod(self, path: Path, mode: int, *, follow: bool = False) -> None:
        node = self.machine.find(path, follow=follow)[1]
        if node.kind == "symlink" or node.mode != mode:  # a mode that is right is right on a read-only disk
            self.machine.chmod(path, mode, follow=follow)

    def _make_directory(self, path: Path, mode: int, parents_mode: int) -> bool:
        place = self.machine.look(path)
        if place is not None:
            if place[1].kind != "directory":
                raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            return False
        if path.parent != path:
            self._make_directory(path.parent, parents_mode, parents_mode)
        self.machine.make(path, "directory", mode)
        return True

    def ensure_file(self, path: Path, mode: int = 0o640) -> bool:
        self._refuse_links(path)
        with attempt(f"make the file {path}"):
            place = self.machine.look(path, follow=False)
            if place is None:
                self.machine.make(path, "file", mode)
                self.machine.chmod(path, mode)
                return True
            if place[1].kind != "file":
                raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
            return False

    def read(self, path: Path, limit: int = 1 << 20) -> bytes | None:
        self._refuse_links(path, last=True)
        place = self._look(path, follow=True)
        if place is None:
            return None
        content = place[1].content
        problem = ""
        if place[1].kind != "file":
            problem = "is a directory" if place[1].kind == "directory" else "not a regular file"
        elif len(content) > limit:
            problem = f"longer than {limit} bytes"
        if problem:
            message = f"cannot read {path}: {problem}"
            raise OperationError(message)
        return content

    def write(self, path: Path, data: bytes, mode: int = 0o600, *, durable: bool = False) -> None:
        del durable
        temporary = path.with_name(f".{path.name[:200]}.tmp")
        self._refuse_links(path)
        with attempt(f"write {path}"):
            if self.machine.look(temporary, follow=False) is not None:
                self.machine.unlink(temporary)
            self.machine.make(temporary, "file", mode, content=data).mode = mode
            try:
                self.machine.rename(temporary, path)
            except OSError:
                self.machine.unlink(temporary)
                raise

    def ensure_symlink(self, path: Path, target: str) -> None:
        self._refuse_links(path)
        with attempt(f"link {path} to {target}"):
            place = self.machine.look(path, follow=False)
            if place is not None and place[1].kind != "symlink":
                raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
            if place is not None and place[1].target != target:
                self.machine.unlink(path)
                place = None
            if place is None:
                self.machine.make(path, "symlink", 0o777, content=target.encode())

    def read_link(self, path: Path) -> str | None:
        place = self._look(path)
        return place[1].target if place is not None and place[1].kind == "symlink" else None

    def links(self, path: Path) -> dict[str, str | None]:
        self._refuse_links(path, last=True)
        place = self._look(path, follow=True)
        children = {} if place is None else place[1].children
        return {name: node.target if node.kind == "symlink" else None for name, node in children.items()}

    def make_tree(self, path: Path, files: Payload) -> None:
        self._refuse_links(path)
        with attempt(f"write {path}"):
            self._make_tree(path, layout(files))

    def _make_tree(self, path: Path, tree: Layout) -> None:
        self.machine.make(path, "directory", DIRECTORY_MODE)
        self.machine.chmod(path, DIRECTORY_MODE)
        for name, content in tree.items():
            if isinstance(content, PayloadFile):
                node = self.machine.make(path / name, "file", 0, content=content.data)
                self.machine.chown(path / name, content.uid, content.gid)
                node.mode = content.mode
            else:
                self._make_tree(path / name, content)

    def has_tree(self, path: Path, files: Payload) -> bool:
        self._refuse_links(path, last=True)
        place = self._look(path, follow=True)
        if place is None or place[1].kind != "directory":
            return False
        with attempt(f"read {path}"):
            return _matches(place[1], layout(files), place[1])

    def rename(self, source: Path, target: Path) -> None:
        self._refuse_links(source)
        self._refuse_links(target)
        with attempt(f"rename {source} to {target}"):
            self.machine.rename(source, target)

    def remove_file(self, path: Path, *, durable: bool = False) -> None:
        del durable
        self._refuse_links(path)
        with attempt(f"remove {path}"), suppress(FileNotFoundError, NotADirectoryError):
            self.machine.unlink(path)

    def remove_directory(self, path: Path) -> bool:
        self._refuse_links(path)
        with attempt(f"remove the directory {path}"):
            parent = self.machine.look(path.parent)
            if parent is None or parent[1].kind != "directory":
                return True
            try:
                self.machine.rmdir(path)
            except FileNotFoundError:
                return True
            except OSError as error:
                if error.errno not in {errno.ENOTEMPTY, errno.EBUSY, errno.ENOTDIR}:
                    raise
                return False
            return True

    def remove_tree(self, path: Path, *, cancelled: Callable[[], bool] = never) -> None:
        self._refuse_mounts(path)
        place = self._look(path)
        if place is None:
            return
        if place[1].kind != "directory":
            self.remove_file(path)
            return
        for name in tuple(place[1].children):
            if cancelled():
                message = f"removing {path} was cancelled"
                raise TransientError(message)
            self.remove_tree(path / name, cancelled=cancelled)
        with attempt(f"remove the directory {path}"):
            self.machine.rmdir(path)

    def discard(self, path: Path) -> None:
        self._refuse_mounts(path)
        place = self._look(path)
        if place is None:
            return
        self._refuse_links(path)
        if not self.hold_trash and _is_small(place[1]):
            self.remove_tree(path)
            return
        self.ensure_directory(self.paths.trash, 0o700, parents_mode=0o700)
        with attempt(f"move {path} into {self.paths.trash}"):
            aside = self.paths.trash / f"{path.name}.{place[1].inode}"
            try:
                self.machine.rename(path, aside)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                aside = path
        if aside == path or not self.hold_trash:
            self.remove_tree(aside)

    def resume_discards(self) -> None:
        """Delete in the background what a crash left in the trash; for the start of the daemon."""
        if not self.hold_trash:
            self.settle()

    def settle(self) -> None:
        """Let the background deletion finish."""
        for name in self.names(self.paths.trash):
            self.remove_tree(self.paths.trash / name)

    def _refuse_mounts(self, path: Path) -> None:
        inside = [entry.target for entry in self.machine.entries() if is_below(entry.target, path)]
        if inside:
            message = f"cannot remove {path}: {inside[0]} is a mount"
            raise BusyError(message)

    def chmod(self, path: Path, mode: int) -> None:
        self._refuse_links(path)
        with attempt(f"change the mode of {path}"):
            self._chmod(path, mode)

    def chown(self, path: Path, uid: int, gid: int) -> None:
        self._refuse_links(path)
        with attempt(f"change the owner of {path}"):
            self.machine.chown(path, uid, gid)


def _matches(node: Node, tree: Layout, top: Node) -> bool:
    if node.kind != "directory" or node.mode & 0o777 != DIRECTORY_MODE or node.children.keys() != tree.keys():
        return False
    return all(_holds(node.children[name], content, top) for name, content in tree.items())


def _holds(node: Node, content: PayloadFile | Layout, top: Node) -> bool:
    if not isinstance(content, PayloadFile):
        return _matches(node, content, top)
    owner = (top.uid if content.uid == -1 else content.uid, top.gid if content.gid == -1 else content.gid)
    return (node.kind, node.mode, (node.uid, node.gid), node.content) == ("file", content.mode, owner, content.data)


def _is_small(node: Node) -> bool:
    pending, seen = [node], 0
    while pending:
        children = pending.pop().children.values()
        seen += len(children)
        if seen > _SMALL:
            return False
        pending.extend(children)
    return True


def file_info(node: Node) -> FileInfo:
    """Say what stat says of a node."""
    return FileInfo(
        kind=node.kind,
        mode=node.mode,
        uid=node.uid,
        gid=node.gid,
        size=len(node.content),
        device=node.disk.device,
        inode=node.inode,
        rdev=node.rdev,
    )
