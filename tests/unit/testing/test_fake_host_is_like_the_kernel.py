"""FakeHost and this machine, given the same calls: the same answers, the same errors, the same files and mounts."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from volmgr.errors import VolmgrError
from volmgr.host.interface import FileInfo, FileSystem, Host, Identity, MountEntry
from volmgr.model.payload import PayloadFile
from volmgr.testing import FakeHost
from volmgr.testing.contract.subject import snapshot
from volmgr.testing.real_host import RealHosts

pytestmark = pytest.mark.root

Call = tuple[str, tuple[object, ...], dict[str, object]]

PATHS = st.sampled_from(["a", "a/b", "a/b/c", "d", "d/e"])
MODES = st.sampled_from([0o755, 0o700, 0o777, 0o2750, 0o640])
TARGETS = st.sampled_from(
    ["b", "missing", "../d", "ROOT/a", "ROOT/d"]
)  # never out of the root: calls change what they reach
SUB_PATHS = st.sampled_from(["b", "b/c", "e", ".", "../d", "/a", "", "missing/x"])
FLAGS = st.sampled_from([(), ("ro",), ("nosuid", "noexec"), ("rw", "noatime")])
GROUPS = st.sampled_from([0, 7, 4711])
TREES = st.sampled_from(
    [
        dict[str, PayloadFile](),
        {"c": PayloadFile(data=b"one", mode=0o640)},
        {"b/c": PayloadFile(data=b"", mode=0, uid=5), "e": PayloadFile(data=b"two", mode=0o666, gid=7)},
    ]
)


def call(verb: str, *args: st.SearchStrategy[object], **kwargs: st.SearchStrategy[object]) -> st.SearchStrategy[Call]:
    return st.tuples(st.just(verb), st.tuples(*args), st.fixed_dictionaries(kwargs))


CALLS = st.one_of(
    call("files.info", PATHS, follow=st.booleans()),
    call("files.identity", PATHS),
    call("files.names", PATHS),
    call("files.ensure_directory", PATHS, MODES, exact=st.booleans()),
    call("files.ensure_directory", PATHS, MODES, exact=st.booleans()),
    call("files.ensure_file", PATHS, MODES),
    call("files.read", PATHS, st.sampled_from([0, 3, 100])),
    call("files.write", PATHS, st.sampled_from([b"", b"one", b"longer text"]), MODES, durable=st.booleans()),
    call("files.ensure_symlink", PATHS, TARGETS),
    call("files.read_link", PATHS),
    call("files.links", PATHS),
    call("files.make_tree", PATHS, TREES),
    call("files.has_tree", PATHS, TREES),
    call("files.rename", PATHS, PATHS),
    call("files.remove_file", PATHS),
    call("files.remove_directory", PATHS),
    call("files.remove_tree", PATHS),
    call("files.discard", PATHS),
    call("files.chmod", PATHS, MODES),
    call("files.chown", PATHS, st.sampled_from([-1, 0, 5]), st.sampled_from([-1, 0, 7])),
    call("mounts.below", PATHS),
    call("mounts.is_mount_point", PATHS),
    call("mounts.entry", PATHS),
    call("mounts.ensure_mounted", PATHS, st.just("tmpfs"), options=st.sampled_from([(), ("size=64k",), ("ro",)])),
    call("mounts.ensure_mounted", PATHS, st.sampled_from(["tmpfs", "hugetlbfs"])),
    call("mounts.ensure_bound", PATHS, PATHS, options=FLAGS),
    call("mounts.remount", PATHS, st.sampled_from([("ro",), ("rw",), ("size=128k",), ("rw", "nosuid")])),
    call("mounts.unmount", PATHS, lazy=st.booleans()),
    call("mounts.unmount_below", PATHS),
    call("mounts.file_system", PATHS),
    call("subpaths.bind", PATHS, SUB_PATHS, PATHS, create=st.booleans()),
    call(
        "ownership.apply",
        PATHS,
        GROUPS,
        policy=st.sampled_from(["Always", "OnRootMismatch"]),
        read_only=st.booleans(),
    ),
)


@pytest.fixture(scope="module")
def real_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHosts]:
    with RealHosts(tmp_path_factory.mktemp("hosts")) as hosts:
        yield hosts


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(calls=st.lists(CALLS, min_size=1, max_size=25))
@example(
    calls=[
        ("files.ensure_directory", ("a/b", 0o755), {}),
        ("files.ensure_symlink", ("d", "ROOT/a"), {}),
        ("files.ensure_file", ("d/e", 0o640), {}),
        ("mounts.ensure_bound", ("a", "a/b"), {"options": ("ro",)}),
        ("files.remove_tree", ("a",), {}),
        ("files.write", ("a/b/c", b"one", 0o640), {"durable": False}),
        ("mounts.unmount_below", ("a",), {}),
    ]
)
def test_every_sequence_of_calls_ends_alike(real_hosts: RealHosts, calls: list[Call]) -> None:
    real_hosts.clear()
    fake, (real, _) = FakeHost(), real_hosts.fresh()
    for host in (fake, real):  # one file system on both, so that its type and the roots of binds are the same
        host.mounts.ensure_mounted(host.paths.root, "tmpfs", options=("size=8m", "mode=0750"))
    for step, one in enumerate(calls):
        answers = [answer(host, one) for host in (fake, real)]
        assert answers[0] == answers[1], f"step {step}: {one}"
        worlds = [world(host) for host in (fake, real)]
        assert worlds[0] == worlds[1], f"after step {step}: {one}"


def answer(host: Host, one: Call) -> object:
    verb, args, kwargs = one
    service, _, name = verb.partition(".")
    function: Callable[..., object] = getattr(getattr(host, service), name)
    root = str(host.paths.root)
    given_args = [
        argument if not isinstance(argument, str) or not is_path(verb, index) else host.paths.root / argument
        for index, argument in enumerate(args)
    ]
    given_args = [argument.replace("ROOT", root) if isinstance(argument, str) else argument for argument in given_args]
    try:
        return plain(function(*given_args, **kwargs), host)
    except VolmgrError as error:
        return type(error).__name__


def is_path(verb: str, index: int) -> bool:
    return index == 0 or verb in {"files.rename", "mounts.ensure_bound"} or (verb == "subpaths.bind" and index == 2)


def plain(value: object, host: Host) -> object:
    match value:
        case FileInfo():
            return (value.kind, value.mode, value.uid, value.gid, value.size if value.kind == "file" else 0)
        case Identity():
            return value.mount is not None
        case FileSystem():
            return value.type
        case MountEntry():
            return row(value, host)
        case tuple():
            return [plain(item, host) for item in cast("tuple[object, ...]", value)]
        case str():
            return value.replace(str(host.paths.root), "ROOT")
        case _:
            return value


def row(entry: MountEntry, host: Host) -> list[object]:
    shown = {*entry.options, *(f"super {option}" for option in entry.super_options)}
    noise = {"super inode64", "super huge=within_size", "super huge=always"}
    target = entry.target.relative_to(host.paths.root)
    return [str(target), entry.fstype, entry.root, entry.source, entry.deleted, sorted(shown - noise)]


def world(host: Host) -> tuple[object, ...]:
    files = {str(path.relative_to(host.paths.root)): what for path, what in snapshot(host, host.paths.root).items()}
    mounts = [row(entry, host) for entry in host.mounts.below(host.paths.root)]
    return ({path: what.replace(str(host.paths.root), "ROOT") for path, what in files.items()}, mounts)


def test_both_hosts_describe_a_missing_place_alike(real_hosts: RealHosts) -> None:
    for host in (FakeHost(), real_hosts.fresh()[0]):
        nowhere = host.paths.root / "missing" / "thing"
        assert host.files.info(nowhere) is None
        assert host.files.names(nowhere) == ()
        assert host.files.remove_directory(nowhere)
        assert host.mounts.below(nowhere) == ()
        assert not host.mounts.is_mount_point(nowhere)
        assert host.block.find_loops(nowhere) == ()
        assert host.block.is_free(Path("/dev/no-such-device"))
