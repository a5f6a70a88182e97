"""gitRepo on a host in memory: what is refused, where a clone goes, and what is left of one that failed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from volmgr.plugin import (
    CommandResult,
    Mounted,
    NotOurs,
    OperationError,
    PluginError,
    SpecError,
    UncertainError,
)
from volmgr.testing import FakeHost, Fault, FaultHost, Killed, Volume
from volmgr_gitrepo.contract import fake_git, make_repository
from volmgr_gitrepo.plugin import STAGING, GitRepo
from volmgr_gitrepo.source import GitRepoSettings, GitRepoSource

REPOSITORY = "/srv/git/site.git"
URL = "https://example.com/site.git"
ALLOWED = GitRepoSettings(enabled=True, local_below=("/srv/git",))
ONLY_HTTPS = GitRepoSettings(enabled=True)


@pytest.fixture
def host() -> FakeHost:
    host = FakeHost(settings=[ALLOWED])
    make_repository(host, Path(REPOSITORY))
    host.programs["setpriv"] = fake_git(host)
    return host


def volume(repository: str = REPOSITORY, revision: str = "", directory: str = "") -> Volume:
    source = GitRepoSource(repository=repository, revision=revision, directory=directory)
    return Volume(GitRepo(), source)


def ready(host: FakeHost) -> Path:
    return host.paths.pod_plugin("uid-web", GitRepo.name, "data") / "ready"


def recorded(host: FakeHost) -> list[str]:
    """Note what git is asked for from now on."""
    inner, calls = host.programs["setpriv"], list[str]()

    def run(argv: tuple[str, ...], stdin: bytes) -> CommandResult:
        calls.append(" ".join(each for each in argv[argv.index("git") :] if each in {"clone", "checkout", "reset"}))
        return inner(argv, stdin)

    host.programs["setpriv"] = run
    return calls


def test_it_is_off_unless_the_node_s_owner_enables_it(host: FakeHost) -> None:
    host.with_settings()
    before = host.tree()
    with pytest.raises(PluginError, match=r"off on this node.*init container.*enabled: true"):
        volume().mount(host)
    assert host.tree() == before


@pytest.mark.parametrize("settings", [{"protocols": ("ext",)}, {"protocols": ("https", "ssh")}, {"clone_seconds": 0.0}])
def test_settings_that_would_allow_more_than_they_seem_are_refused(settings: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(ValueError, match="write"):
        GitRepoSettings(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("top", ["/", "srv", "/srv/../etc"])
def test_directories_of_local_repositories_are_absolute_and_not_everything(top: str) -> None:
    with pytest.raises(ValueError, match="local_below"):
        GitRepoSettings(local_below=(top,))


@pytest.mark.parametrize(
    ("repository", "revision", "directory", "problem"),
    [
        ("--foo", "", "", "repository '--foo' begins with a dash"),
        (URL, "--bar", "", "revision '--bar' begins with a dash"),
        (URL, "", "-b", "directory '-b' begins with a dash"),
        (URL, "main", "foo/bar", "with a revision it must not contain a slash"),
        (URL, "", "..", "leads out"),
        (URL, "", "a/../../b", "leads out"),
        (URL, "", "a/../b", "leads out"),
        (URL, "", "/etc", "leads out"),
        (URL, "", "x/.git", "names git's own directory"),
        (URL, "main", ".git", "names git's own directory"),
        (URL, "", ".GIT/hooks", "names git's own directory"),
        (URL, "", ".git. /x", "names git's own directory"),
        (URL, "", "GIT~1", "names git's own directory"),
        (URL, "", ".g\u200cit", "cannot be printed"),
        (URL, "", "a\0b", "cannot be printed"),
        (URL + "\n--upload-pack=x", "", "", "cannot be printed"),
    ],
)
def test_what_git_could_misunderstand_is_refused_unseen(
    host: FakeHost, repository: str, revision: str, directory: str, problem: str
) -> None:
    before = host.tree()
    host.programs.clear()
    of = volume(repository, revision, directory)
    with pytest.raises(SpecError, match=problem):
        of.mount(host)
    assert host.tree() == before
    with pytest.raises(SpecError, match=problem):
        of.plugin.check(of.spec, of.pod)


@pytest.mark.parametrize(
    "repository",
    [
        "ext::sh -c id",
        "ext::https://example.com/x",
        "fd::17",
        "http://example.com/x",
        "git://example.com/x",
        "ssh://git@example.com/x",
        "git@example.com:x.git",
        "example.com:x.git",
        "rsync://example.com/x",
        "HTTPS://example.com/x",
        "relative/path",
        ".",
        "~/x",
        "",
        "https:///x",
    ],
)
def test_only_addresses_of_allowed_protocols_are_reached(host: FakeHost, repository: str) -> None:
    host.with_settings(ONLY_HTTPS)
    host.programs.clear()
    with pytest.raises(SpecError, match=r"gitRepo\.repository"):
        volume(repository).mount(host)


def test_an_allowed_protocol_is_the_only_one_that_git_may_speak(host: FakeHost) -> None:
    host.with_settings(GitRepoSettings(enabled=True, protocols=("https", "git")))
    watched = FaultHost(host)
    volume("git://example.com/x").mount(watched)
    (call,) = (each for each in watched.trace if each.verb == "commands.run")
    argv, environment = call.args[0], call.kwargs["environment"]
    assert isinstance(argv, tuple)
    assert isinstance(environment, dict)
    assert {"protocol.allow=never", "protocol.git.allow=always", "core.hooksPath=/dev/null"} <= {*argv}
    assert environment["GIT_ALLOW_PROTOCOL"] == "git"
    assert argv[-2:] == ("--", "git://example.com/x")


def test_credentials_in_an_address_are_refused_and_not_repeated(host: FakeHost) -> None:
    host.with_settings(ONLY_HTTPS)
    for who in ("me:hunter2", "hunter2"):
        with pytest.raises(SpecError, match="credentials") as caught:
            volume(f"https://{who}@example.com/x.git").mount(host)
        assert "hunter2" not in str(caught.value)
        assert "example.com" in str(caught.value)


@pytest.mark.parametrize(
    "repository",
    [
        "/etc/site.git",
        "file:///etc/site.git",
        "/srv/git/../../etc",
        "/srv/gitx/site.git",
        "/var/lib/volmgr/pods/uid-other/volumes/kubernetes.io~git-repo/data/site",
        "/srv/git/link",
        "/srv/git/link/site.git",
        "file://host/srv/git/site.git",
    ],
)
def test_repositories_of_the_node_are_another_pod_s_and_refused_but_below_named_directories(
    host: FakeHost, repository: str
) -> None:
    host.link("/srv/git/link", "/var/lib/volmgr/pods")
    with pytest.raises(SpecError, match=r"not allowed here|is a symbolic link|an absolute path without"):
        volume(repository).mount(host)


def test_what_git_would_decode_before_it_looks_is_refused(host: FakeHost) -> None:
    for dots in ("%2e%2e", ".%2E", "..%2f.."):
        with pytest.raises(SpecError, match="must have no % in it"):
            volume(f"file:///srv/git/{dots}/var/lib/volmgr/pods/x").mount(host)


@pytest.mark.parametrize("place", ["x", "x/.git", "x.git", "x.git/.git"])
@pytest.mark.parametrize("kind", ["link", "gitfile"])
def test_what_leads_to_another_repository_is_refused_wherever_git_looks(host: FakeHost, place: str, kind: str) -> None:
    path = Path("/srv/git", place)
    host.mkdir(path.parent)
    if kind == "link":
        host.link(path, "/var/lib/volmgr/pods")
    else:
        host.put(path, b"gitdir: /var/lib/volmgr/pods/uid-other/site/.git")
    with pytest.raises(SpecError, match=f"{path} is a (symbolic link|file, which may lead elsewhere)"):
        volume("/srv/git/x").mount(host)


def test_the_root_directory_is_never_allowed_whatever_is_configured(host: FakeHost) -> None:
    host.with_settings(GitRepoSettings(enabled=True, local_below=("/var/lib",)))
    with pytest.raises(SpecError, match="not allowed here"):
        volume("/var/lib/volmgr/pods/x").mount(host)
    with pytest.raises(SpecError, match="not allowed here"):
        volume("/var/lib").mount(host)


@pytest.mark.parametrize("repository", [REPOSITORY, f"file://{REPOSITORY}"])
def test_a_repository_below_a_named_directory_is_cloned(host: FakeHost, repository: str) -> None:
    assert volume(repository).mount(host) == Mounted()
    assert host.files.info(volume().target(host) / "site/.git/HEAD") is not None


@pytest.mark.parametrize(
    ("directory", "place"),
    [("target_dir", "target_dir"), (".", ""), ("./.", ""), ("", "site"), ("target_dir/", "target_dir")],
)
def test_a_revision_is_checked_out_and_reset_where_the_directory_says(
    host: FakeHost, directory: str, place: str
) -> None:
    calls = recorded(host)
    repo = volume(revision="main", directory=directory)
    repo.mount(host)
    assert calls == ["clone", "checkout", "reset"]
    assert host.files.info(repo.target(host) / place / ".git/HEAD") is not None
    assert STAGING not in host.files.names(repo.target(host))
    assert host.tree(ready(host)) == {ready(host): "file 640 0:0 b''"}


def test_without_a_revision_it_is_only_cloned_and_may_lie_deep(host: FakeHost) -> None:
    calls = recorded(host)
    repo = volume(directory="a/b/c")
    repo.mount(host)
    assert calls == ["clone"]
    assert host.files.info(repo.target(host) / "a/b/c/.git/HEAD") is not None


def test_a_ready_volume_is_left_alone(host: FakeHost) -> None:
    repo = volume()
    repo.mount(host)
    host.put(repo.target(host) / "site/index.html", b"written by the pod")
    before = host.tree()
    host.programs.clear()
    repo.mount(host)
    assert host.tree() == before


def test_a_volume_that_its_pod_has_emptied_is_not_cloned_again(host: FakeHost) -> None:
    repo = volume()
    repo.mount(host)
    host.files.remove_tree(repo.target(host) / "site")
    host.programs.clear()
    repo.mount(host)
    assert host.files.names(repo.target(host)) == ()


def test_a_volume_whose_directory_was_deleted_is_cloned_again(host: FakeHost) -> None:
    repo = volume()
    repo.mount(host)
    host.files.remove_tree(repo.target(host))
    repo.mount(host)
    assert host.files.names(repo.target(host)) == ("site",)


def two_entries(host: FakeHost) -> Callable[[tuple[str, ...], bytes], CommandResult]:
    inner = fake_git(host)

    def run(argv: tuple[str, ...], stdin: bytes) -> CommandResult:
        host.mkdir(Path(argv[argv.index("-C") + 1]) / "second")
        return inner(argv, stdin)

    return run


def test_two_entries_where_one_is_expected_are_an_error(host: FakeHost) -> None:
    host.programs["setpriv"] = two_entries(host)
    with pytest.raises(OperationError, match="unexpected directory contents: git made second, site"):
        volume(revision="main").mount(host)
    assert host.files.info(volume().target(host)) is None


def test_what_we_did_not_clone_is_kept_and_named(host: FakeHost) -> None:
    repo = volume()
    host.mkdir(repo.target(host))
    host.put(repo.target(host) / "precious", b"somebody's")
    with pytest.raises(OperationError, match=r"unexpected directory contents: .* holds 'precious'.*move it away"):
        repo.mount(host)
    assert host.content(repo.target(host) / "precious") == b"somebody's"
    with pytest.raises(NotOurs):
        repo.reconstruct(host)


def test_a_clone_that_failed_leaves_nothing_and_the_next_try_succeeds(host: FakeHost) -> None:
    repo = volume("/srv/git/later.git")
    host.mkdir(repo.target(host).parent)
    with pytest.raises(OperationError, match=r"cannot clone /srv/git/later.git: fatal: repository .* does not exist"):
        repo.mount(host)
    assert host.files.names(repo.target(host).parent) == ()
    assert host.files.info(ready(host).parent) is None
    make_repository(host, Path("/srv/git/later.git"))
    repo.mount(host)
    assert host.files.names(repo.target(host)) == ("later",)


def test_a_revision_that_is_not_there_is_named_and_nothing_is_left(host: FakeHost) -> None:
    with pytest.raises(OperationError, match="cannot check v9 out: fatal: invalid reference: v9"):
        volume(revision="v9").mount(host)
    assert host.files.info(volume().target(host)) is None


def test_a_clone_that_was_cut_off_is_begun_anew(host: FakeHost) -> None:
    repo = volume()
    dying = FaultHost(host, [Fault.kill(1, verb="commands.run")])
    with pytest.raises(Killed):
        repo.mount(dying)
    host.put(repo.target(host) / STAGING / "half", b"a half")
    repo.mount(host)
    assert host.files.names(repo.target(host)) == ("site",)


def test_a_git_that_did_not_end_is_uncertain_and_its_leavings_go_with_the_next_try(host: FakeHost) -> None:
    repo = volume()
    slow = FaultHost(host, [Fault(1, UncertainError("git did not end before its deadline"), verb="commands.run")])
    with pytest.raises(UncertainError, match="deadline"):
        repo.mount(slow)
    repo.mount(host)
    assert host.files.names(repo.target(host)) == ("site",)


def test_git_is_given_the_time_that_is_left_and_none_is_an_error(host: FakeHost) -> None:
    watched = FaultHost(host)
    volume().mount(watched, deadline=host.now + 7.0)
    (call,) = (each for each in watched.trace if each.verb == "commands.run")
    assert call.kwargs["deadline"] == 7.0
    volume().unmount(host)
    with pytest.raises(OperationError, match="no time is left"):
        volume().mount(host, deadline=host.now)


def test_every_cloned_file_is_the_group_s_also_without_a_revision(host: FakeHost) -> None:
    repo = volume()
    repo.mount(host, fs_group=4711)
    owners = {what.split()[2] for what in host.tree(repo.target(host)).values()}
    assert owners == {"0:4711"}


def test_a_pod_that_returns_while_it_is_taken_down_keeps_what_is_there(host: FakeHost) -> None:
    repo = volume()
    repo.mount(host)
    before = host.tree()
    dying = FaultHost(host, [Fault.kill(1, verb="mounts.unmount_below")])
    with pytest.raises(Killed):
        repo.unmount(dying)
    repo.mount(host)
    assert host.tree() == before


def test_its_name_is_what_it_clones() -> None:
    repo = volume(URL, "main", "code")
    assert repo.plugin.volume_name(repo.spec) == f"{URL}:main:code"
