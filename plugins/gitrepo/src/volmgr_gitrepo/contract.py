"""What the contract suite tries gitRepo with: a small repository of the node, which the settings allow."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from volmgr.plugin import CommandResult, Host
from volmgr.testing import FakeHost, Sample
from volmgr_gitrepo.source import GitRepoSettings, GitRepoSource

BRANCH = "main"
_DONE = CommandResult(0, "", "")
_WHO = "A <a@example.com> 1700000000 +0000"


def samples(top: Path) -> Iterator[Sample]:
    """Give a clone in a directory that git names, and one in the volume itself, with a revision.

    The files of the commit are none: git notes when it wrote a file, so that no two clones with files are the same.
    """
    settings = GitRepoSettings(enabled=True, local_below=(str(Path("/", top)),))
    for directory, revision in (("", ""), (".", BRANCH)):
        source = GitRepoSource(repository=f"{top}/repo.git", directory=directory, revision=revision)
        yield Sample(source=source, settings=(settings,), arrange=partial(_arrange, top / "repo.git"))


def _arrange(path: Path, host: Host) -> None:
    make_repository(host, path)
    if isinstance(host, FakeHost):
        host.programs["setpriv"] = fake_git(host)


def make_repository(host: Host, path: Path, files: Mapping[str, bytes] | None = None) -> str:
    """Make a bare repository with one commit on `main`, and files of these names; gives the commit's name."""
    for directory in ("objects", "refs/heads"):
        host.files.ensure_directory(path / directory, 0o755, parents_mode=0o755)
    entries = sorted((files or {}).items())
    tree = b"".join(
        b"100644 " + name.encode() + b"\0" + bytes.fromhex(_store(host, path, "blob", content))
        for name, content in entries
    )
    commit = f"tree {_store(host, path, 'tree', tree)}\nauthor {_WHO}\ncommitter {_WHO}\n\none\n"
    name = _store(host, path, "commit", commit.encode())
    host.files.write(path / "refs/heads" / BRANCH, f"{name}\n".encode(), 0o644)
    host.files.write(path / "HEAD", f"ref: refs/heads/{BRANCH}\n".encode(), 0o644)
    host.files.write(path / "config", b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n", 0o644)
    return name


def _store(host: Host, path: Path, kind: str, content: bytes) -> str:
    """Write one object as git does (gitformat-loose(5)), and give its name."""
    whole = f"{kind} {len(content)}\0".encode() + content
    name = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
    place = path / "objects" / name[:2]
    host.files.ensure_directory(place, 0o755)
    host.files.write(place / name[2:], zlib.compress(whole), 0o444)
    return name


def fake_git(host: FakeHost) -> Callable[[tuple[str, ...], bytes], CommandResult]:
    """Give what stands for `setpriv … git …` on that host: it clones any address that does not say otherwise.

    A repository that is a path must be there. A revision must be one of its branches, or `main`.
    """

    def run(argv: tuple[str, ...], _stdin: bytes) -> CommandResult:
        directory = Path(argv[argv.index("-C") + 1])
        verb = next(each for each in argv[argv.index("git") :] if each in {"clone", "checkout", "reset"})
        if verb == "clone":
            return _clone(host, directory, argv[argv.index("--", argv.index("clone")) + 1 :])
        if verb == "checkout":
            return _check_out(host, directory, argv[-2])
        return _DONE

    return run


def _clone(host: FakeHost, below: Path, given: tuple[str, ...]) -> CommandResult:
    repository, *directory = given
    name = directory[0] if directory else repository.rstrip("/").rpartition("/")[2].removesuffix(".git")
    tree = below / name
    if repository.startswith("/") and host.files.info(Path(repository, "HEAD")) is None:
        return CommandResult(128, "", f"fatal: repository '{repository}' does not exist")
    if host.files.names(tree):
        return CommandResult(128, "", f"fatal: destination path '{name}' already exists and is not an empty directory.")
    host.mkdir(tree / ".git")
    host.put(tree / ".git/HEAD", b"ref: refs/heads/main\n")
    return _DONE


def _check_out(host: FakeHost, tree: Path, revision: str) -> CommandResult:
    if revision != "main":
        return CommandResult(1, "", f"fatal: invalid reference: {revision}")
    host.put(tree / ".git/HEAD", b"ref: refs/heads/main\n")
    return _DONE
