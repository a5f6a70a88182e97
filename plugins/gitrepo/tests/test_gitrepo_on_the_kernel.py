"""gitRepo with the real git: what a clone brings, and what a malicious repository, server or node cannot make it do."""

import http.server
import os
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from volmgr.plugin import Host, Mounted, OperationError, SpecError, UncertainError
from volmgr.testing import Volume
from volmgr.testing.real_host import RealHosts
from volmgr_gitrepo.contract import BRANCH, make_repository
from volmgr_gitrepo.plugin import GitRepo
from volmgr_gitrepo.source import GitRepoSettings, GitRepoSource

pytestmark = pytest.mark.root

WHO = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.com",
}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with RealHosts(tmp_path) as hosts:
        settings = GitRepoSettings(enabled=True, protocols=("http",), local_below=(str(tmp_path / "srv"),))
        yield hosts.fresh()[0].with_settings(settings)


@pytest.fixture
def srv(tmp_path: Path) -> Path:
    """The directory whose repositories may be cloned."""
    (tmp_path / "srv").mkdir()
    return tmp_path / "srv"


def volume(repository: Path | str, revision: str = "", directory: str = "code") -> Volume:
    source = GitRepoSource(repository=str(repository), revision=revision, directory=directory)
    return Volume(GitRepo(), source)


def git(host: Host, tree: Path, *arguments: str) -> str:
    """Run git as a user would, in a repository of the test's own."""
    return host.commands.run(["git", "-C", str(tree), *arguments], environment=WHO).stdout.strip()


def commit(host: Host, tree: Path) -> str:
    """Commit all that is in a directory; gives the commit's name."""
    if not (tree / ".git").is_dir():
        git(host, tree, "init", "--quiet", f"--initial-branch={BRANCH}")
    git(host, tree, "add", "--all")
    git(host, tree, "commit", "--quiet", "--allow-empty", "--message=more")
    return git(host, tree, "rev-parse", "HEAD")


def trap(path: Path, marker: Path) -> None:
    """Write a program that leaves a mark."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ntouch {marker}\n")
    path.chmod(0o755)


def test_a_clone_has_the_files_of_the_default_branch(host: Host, srv: Path) -> None:
    make_repository(host, srv / "site.git", {"index.html": b"hello\n", "style.css": b"b {}\n"})
    assert volume(srv / "site.git", directory="").mount(host) == Mounted()
    target = volume(srv / "site.git").target(host)
    assert sorted(os.listdir(target)) == ["site"]
    assert (target / "site/index.html").read_bytes() == b"hello\n"
    assert git(host, target / "site", "status", "--porcelain") == ""


@pytest.mark.parametrize("by", ["branch", "tag", "name", "short name"])
def test_a_revision_may_be_a_branch_a_tag_or_a_commit(host: Host, srv: Path, by: str) -> None:
    tree = srv / "work"
    tree.mkdir()
    (tree / "version").write_text("1")
    old = commit(host, tree)
    git(host, tree, "tag", "v1")
    git(host, tree, "branch", "old")
    (tree / "version").write_text("2")
    commit(host, tree)
    revision = {"branch": "old", "tag": "v1", "name": old, "short name": old[:10]}[by]
    volume(tree, revision, ".").mount(host)
    target = volume(tree).target(host)
    assert (target / "version").read_text() == "1"
    assert git(host, target, "rev-parse", "HEAD") == old


def test_no_hook_of_a_repository_runs_wherever_it_is(host: Host, srv: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    tree = srv / "work"
    # The repository's own hooks, and files of it that make the work tree look like a repository with hooks.
    for hook in ("post-checkout", "reference-transaction"):
        trap(tree / "hooks" / hook, marker)
    for name in ("objects", "refs"):
        (tree / name).mkdir()
        (tree / name / "keep").write_text("")
    (tree / "HEAD").write_text(f"ref: refs/heads/{BRANCH}\n")
    (tree / "config").write_text(
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = .git/hooks/post-checkout\n"
    )
    commit(host, tree)
    trap(tree / ".git/hooks/post-checkout", marker)
    trap(tree / ".git/hooks/reference-transaction", marker)
    victim = tmp_path / "victim"
    host.commands.run(["git", "clone", "--quiet", str(tree), str(victim / ".git")])
    git(host, victim, "commit", "--quiet", "--allow-empty", "--message=a user's")
    assert marker.exists(), "the trap must be one"
    marker.unlink()
    for directory in ("code", ".", ""):
        repo = volume(tree, BRANCH, directory)
        repo.mount(host)
        repo.unmount(host)
    for directory in ("x/.git", ".git", "x/.GIT"):
        for revision in (BRANCH, ""):
            with pytest.raises(SpecError, match=r"git's own directory|must not contain a slash"):
                volume(tree, revision, directory).mount(host)
    assert not marker.exists()


def test_what_the_node_has_configured_for_its_users_is_not_used(
    host: Host, srv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker, home = tmp_path / "ran", tmp_path / "home"
    for name in ("hooks/post-checkout", "template/hooks/post-checkout", "smudge", "helper", "fsmonitor"):
        trap(home / name, marker)
    (home / ".gitconfig").write_text(
        f"[core]\n\thooksPath = {home}/hooks\n\tfsmonitor = {home}/fsmonitor\n[init]\n\ttemplateDir = {home}/template\n"
        f'[filter "evil"]\n\tsmudge = {home}/smudge\n\trequired = true\n[credential]\n\thelper = {home}/helper\n'
        f'[url "{srv}/other.git"]\n\tinsteadOf = {srv}/site.git\n'
    )
    monkeypatch.setenv("HOME", str(home))
    make_repository(host, srv / "site.git", {".gitattributes": b"* filter=evil\n", "a": b"as it is"})
    make_repository(host, srv / "other.git", {"a": b"of another"})
    volume(srv / "site.git", BRANCH).mount(host)
    assert (volume("").target(host) / "code/a").read_bytes() == b"as it is"
    assert not (volume("").target(host) / "code/.git/hooks").exists()
    assert not marker.exists()


@pytest.mark.parametrize("address", ["file://{srv}/%2e%2e/victim", "{srv}/mine", "file://{srv}/mine", "{srv}/plain"])
def test_a_repository_beside_the_allowed_directories_is_not_reached_by_what_git_makes_of_a_name(
    host: Host, srv: Path, tmp_path: Path, address: str
) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "secret").write_text("of another Pod")
    commit(host, tmp_path / "victim")
    (srv / "mine").mkdir()
    for place in ("mine/.git", "plain"):
        (srv / place).write_text(f"gitdir: {tmp_path}/victim/.git")
    repo = volume(address.format(srv=srv))
    with pytest.raises(SpecError, match=r"must have no %|which may lead elsewhere"):
        repo.mount(host)
    assert not repo.target(host).exists()


@pytest.mark.parametrize("directory", [".volmgr-clone", ".", ""])
def test_a_clone_with_the_name_of_the_place_where_it_is_made_is_refused_and_leaves_nothing(
    host: Host, srv: Path, directory: str
) -> None:
    tree = srv / ".volmgr-clone"
    (tree / ".volmgr-clone").mkdir(parents=True)
    (tree / ".volmgr-clone" / "a").touch()
    commit(host, tree)
    repo = volume(tree, directory=directory)
    with pytest.raises(SpecError, match=r"would have '\.volmgr-clone' at its top"):
        repo.mount(host)
    assert not repo.target(host).exists()
    volume(tree, directory="code").mount(host)
    assert os.listdir(repo.target(host)) == ["code"]


def test_submodules_are_not_fetched(host: Host, srv: Path) -> None:
    make_repository(host, srv / "inner.git", {"secret": b"of another Pod"})
    tree = srv / "work"
    tree.mkdir()
    commit(host, tree)
    git(host, tree, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", f"{srv}/inner.git", "inner")
    commit(host, tree)
    volume(tree, BRANCH).mount(host)
    assert os.listdir(volume("").target(host) / "code/inner") == []


@pytest.mark.parametrize("name", [".git", ".GIT", "git~1", ".g\u200cit"])
def test_a_tree_that_has_git_s_own_directory_in_it_is_refused_and_nothing_is_left(
    host: Host, srv: Path, name: str
) -> None:
    make_repository(host, srv / "evil.git", {name: b"gitdir: /etc"})
    repo = volume(srv / "evil.git")
    with pytest.raises(OperationError, match="cannot clone"):
        repo.mount(host)
    assert not repo.target(host).exists()


def test_links_in_a_repository_lead_nowhere_while_it_is_cloned(host: Host, srv: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("the node's")
    tree = srv / "work"
    tree.mkdir()
    (tree / "link").symlink_to(outside)
    (tree / "file").symlink_to(outside / "precious")
    commit(host, tree)
    before = (outside / "precious").stat()
    volume(tree, BRANCH, ".").mount(host, fs_group=4711)
    target = volume("").target(host)
    assert (target / "link").readlink() == outside
    after = (outside / "precious").stat()
    assert (after.st_gid, after.st_mode) == (before.st_gid, before.st_mode)
    assert outside.stat().st_gid == 0
    assert (target / ".git/HEAD").stat().st_gid == 4711


def test_git_runs_without_capabilities_and_with_nothing_of_our_environment(
    host: Host, srv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = tmp_path / "report"
    program = tmp_path / "bin/git"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\ncat /proc/self/status >> {report}\nenv >> {report}\nexec /usr/bin/git "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    for name, value in (("GIT_SSL_NO_VERIFY", "1"), ("GIT_CONFIG_COUNT", "0"), ("SECRET", "hunter2")):
        monkeypatch.setenv(name, value)
    make_repository(host, srv / "site.git", {"a": b"a"})
    volume(srv / "site.git").mount(host)
    lines = {line.replace("\t", " ") for line in report.read_text().splitlines()}
    nothing = "0000000000000000"
    assert {f"CapEff: {nothing}", f"CapPrm: {nothing}", f"CapBnd: {nothing}", "NoNewPrivs: 1"} <= lines
    assert {"HOME=/nonexistent", "GIT_ALLOW_PROTOCOL=file", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0"} <= lines
    assert not any(line.startswith(("GIT_SSL_NO_VERIFY", "SECRET", "GIT_CONFIG_COUNT")) for line in lines)


def test_a_clone_that_failed_leaves_nothing_and_is_made_when_it_can_be(host: Host, srv: Path) -> None:
    repo = volume(srv / "later.git", BRANCH)
    with pytest.raises(OperationError, match=r"cannot clone .*later.git: .*does not"):
        repo.mount(host)
    assert not repo.target(host).exists()
    make_repository(host, srv / "later.git", {"a": b"a"})
    repo.mount(host)
    assert (repo.target(host) / "code/a").read_bytes() == b"a"


class _Server(http.server.ThreadingHTTPServer):
    """Serves a directory on loopback; `silent` takes requests and never answers, `moved` sends them elsewhere."""

    def __init__(self, top: Path) -> None:
        super().__init__(("127.0.0.1", 0), partial(_Handler, directory=str(top)))
        self.asked = threading.Event()
        self.over = threading.Event()
        self.silent = False
        self.moved = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, _Server)
        server.asked.set()
        if server.silent:
            server.over.wait()
        elif server.moved:
            self.send_response(302)
            self.send_header("Location", server.moved)
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the standard library
        del format, args


@pytest.fixture
def server(srv: Path) -> Iterator[_Server]:
    with _Server(srv) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join()


def published(host: Host, path: Path) -> None:
    """Make a repository that a server of files can serve."""
    name = make_repository(host, path, {"a": b"by http"})
    (path / "info").mkdir()
    (path / "info/refs").write_text(f"{name}\trefs/heads/{BRANCH}\n")


def test_a_repository_is_cloned_by_http(host: Host, srv: Path, server: _Server) -> None:
    published(host, srv / "site.git")
    repo = volume(f"{server.url}/site.git", BRANCH)
    repo.mount(host)
    assert (repo.target(host) / "code/a").read_bytes() == b"by http"


def test_a_server_cannot_send_git_to_the_node_s_files(host: Host, srv: Path, server: _Server) -> None:
    published(host, srv / "site.git")
    server.moved = f"file://{srv}/site.git/info/refs"
    repo = volume(f"{server.url}/other.git")
    with pytest.raises(OperationError, match="cannot clone"):
        repo.mount(host)
    assert not repo.target(host).exists()


def test_a_clone_that_hangs_is_killed_with_its_pod_and_made_when_the_server_answers(
    host: Host, srv: Path, server: _Server
) -> None:
    published(host, srv / "site.git")
    repo = volume(f"{server.url}/site.git", BRANCH)
    server.silent = True
    with pytest.raises(UncertainError, match="was cancelled and was killed"):
        repo.mount(host, cancelled=server.asked.is_set)
    assert repo.target(host).exists()
    server.silent = False
    repo.mount(host)
    assert os.listdir(repo.target(host)) == ["code"]
    assert (repo.target(host) / "code/a").read_bytes() == b"by http"


def test_what_hung_and_is_wanted_no_more_goes_with_all_that_it_left(host: Host, server: _Server) -> None:
    repo = volume(f"{server.url}/site.git")
    server.silent = True
    with pytest.raises(UncertainError):
        repo.mount(host, cancelled=server.asked.is_set)
    repo.unmount(host)
    assert not repo.target(host).exists()
    assert not host.paths.pod_plugin("uid-web", GitRepo.name, "data").exists()
