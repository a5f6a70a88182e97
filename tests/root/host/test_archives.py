"""Archives from those who mean harm: the same on the kernel and in memory, and nothing outside is ever touched."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from volmgr.errors import OperationError, SpecError, TransientError
from volmgr.host.interface import Host, Unpacked, Unpacking
from volmgr.testing.contract.subject import snapshot
from volmgr.testing.fake_host import FakeHost
from volmgr.testing.real_host import RealHosts

Entries = Iterable[tuple[tarfile.TarInfo, bytes]]


def entry(name: str, content: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), 0o644
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


def directory(name: str, mode: int = 0o755) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=tarfile.DIRTYPE, mode=mode)


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=tarfile.SYMTYPE, linkname=target)


def hard_link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=tarfile.LNKTYPE, linkname=target)


def archive_of(entries: Entries, form: int = tarfile.PAX_FORMAT) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form) as archive:
        for info, content in entries:
            archive.addfile(info, io.BytesIO(content))
    return made.getvalue()


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def what(
    *,
    digest: str = "",
    size: int | None = None,
    content_digest: str = "",
    bytes_limit: int = 1 << 24,
    entries_limit: int = 1000,
) -> Unpacking:
    return Unpacking(
        name="layer 1",
        digest=digest,
        size=size,
        content_digest=content_digest,
        whiteouts=True,
        bytes_limit=bytes_limit,
        entries_limit=entries_limit,
    )


@dataclass(frozen=True)
class Site:
    """A host, a directory of it that archives are unpacked to, and one beside it that nothing may touch."""

    host: Host
    top: Path

    @property
    def target(self) -> Path:
        return self.host.paths.state / "here"

    def begin(self) -> None:
        self.host.files.ensure_directory(self.target, 0o755, parents_mode=0o755)
        self.host.files.write(self.top / "precious", b"untouched", 0o640)

    def unpack(self, data: bytes | Entries, wanted: Unpacking | None = None) -> Unpacked:
        content = data if isinstance(data, bytes) else archive_of(data)
        self.host.files.write(self.top / "archive", content)
        return self.host.archives.unpack(self.top / "archive", self.target, wanted or what())

    def refuse(self, data: bytes | Entries, match: str, wanted: Unpacking | None = None) -> None:
        with pytest.raises(OperationError, match=match) as caught:
            self.unpack(data, wanted)
        assert "layer 1" in str(caught.value)

    def read(self, name: str) -> bytes | None:
        return self.host.files.read(self.target / name)

    def tree(self) -> dict[str, str]:
        """Give what is there: links by what they name, files by their content."""
        return dict(self._walk(self.target))

    def _walk(self, path: Path) -> Iterator[tuple[str, str]]:
        for name in self.host.files.names(path):
            info = self.host.files.info(path / name)
            assert info is not None
            key = str((path / name).relative_to(self.target))
            match info.kind:
                case "directory":
                    yield key, "directory"
                    yield from self._walk(path / name)
                case "symlink":
                    yield key, f"-> {self.host.files.read_link(path / name)}"
                case _:
                    yield key, (self.host.files.read(path / name) or b"").decode()

    @property
    def outside(self) -> list[object]:
        files = self.host.files
        return [files.names(self.top), files.read(self.top / "precious"), files.info(self.top / "precious")]


@pytest.fixture(params=["kernel", "memory"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    if request.param == "memory":
        host = FakeHost()
        host.mkdir("/srv/top")
        made = Site(host, Path("/srv/top"))
        made.begin()
        yield made
        return
    with RealHosts(tmp_path) as hosts:
        made = Site(*hosts.fresh())
        made.begin()
        yield made


Evil = Callable[[Path], Entries]

ESCAPES: dict[str, tuple[Evil, str]] = {
    "..": (lambda _: [entry("../evil", b"x")], r"'\.\./evil' leads out of the image"),
    ".. in the middle": (lambda _: [directory("a"), entry("a/../../evil", b"x")], "leads out of the image"),
    "a link upwards, written through": (
        lambda _: [link("out", "../../../../../../../srv/top"), entry("out/precious", b"x")],
        "'out/precious' cannot be made",
    ),
    "an absolute link, written through": (
        lambda top: [link("out", str(top)), entry("out/precious", b"x")],
        "'out/precious' cannot be made",
    ),
    "links in a circle": (lambda _: [link("a", "b"), link("b", "a"), entry("a/x", b"x")], "'a/x' cannot be made"),
    "a hard link by ..": (lambda _: [hard_link("evil", "../../../../etc/passwd")], "leads out of the image"),
    "a hard link to an absolute path": (
        lambda top: [hard_link("evil", f"{top}/precious")],
        "which the image does not hold",
    ),
    "a hard link through a link": (
        lambda top: [link("out", str(top)), hard_link("evil", "out/precious")],
        "which the image does not hold",
    ),
    "a hard link to the top": (lambda _: [hard_link("evil", "/")], "which is no file"),
    "a hard link to a directory": (lambda _: [directory("a"), hard_link("evil", "a")], "cannot be made"),
    "a file in the place of the top": (
        lambda _: [entry("./", b"x", type=tarfile.LNKTYPE, linkname="a")],
        "no file|top",
    ),
    "a link in the place of the top": (lambda _: [link("./", "/etc")], "in the place of the top directory"),
    "a whiteout of the parent": (lambda _: [entry("a/.wh...")], "hides no name"),
    "a whiteout of the directory itself": (lambda _: [entry("a/.wh..")], "hides no name"),
    "a whiteout by ..": (lambda _: [entry("../../.wh.top")], "leads out of the image"),
    "a character device": (
        lambda _: [entry("dev/null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)],
        "character device",
    ),
    "a block device": (lambda _: [entry("dev/sda", type=tarfile.BLKTYPE, devmajor=8)], "'dev/sda' is a block device"),
    "a fifo": (lambda _: [entry("run/pipe", type=tarfile.FIFOTYPE)], "'run/pipe' is a fifo"),
    "a name that is too long": (lambda _: [entry("n" * 256, b"x")], "cannot be made"),
    "a path that is too long": (lambda _: [entry("n/" * 2100 + "n", b"x")], "4096"),
}


@pytest.mark.parametrize("name", ESCAPES)
def test_what_leads_out_or_is_no_file_is_refused_by_name_and_nothing_outside_is_touched(site: Site, name: str) -> None:
    evil, match = ESCAPES[name]
    before = site.outside
    site.host.files.write(site.top / "archive", b"")
    site.refuse(evil(site.top), match)
    assert site.outside[1:] == before[1:]
    assert site.host.files.names(site.top) == ("archive", "precious")


def test_a_link_that_stays_inside_is_followed_as_the_runtimes_do_it(site: Site) -> None:
    site.unpack([directory("usr"), directory("usr/lib"), link("lib", "usr/lib"), link("abs", "/usr/lib")])
    site.unpack([entry("lib/one", b"1"), entry("abs/two", b"2")])
    assert site.tree() == {
        "usr": "directory",
        "usr/lib": "directory",
        "usr/lib/one": "1",
        "usr/lib/two": "2",
        "lib": "-> usr/lib",
        "abs": "-> /usr/lib",
    }


def test_an_absolute_link_means_the_top_of_the_image(site: Site) -> None:
    here = str(site.top).lstrip("/")
    site.unpack([directory(here), link("out", str(site.top)), entry("out/precious", b"the image's")])
    assert site.read(f"{here}/precious") == b"the image's"
    assert site.host.files.read(site.top / "precious") == b"untouched"


def test_an_absolute_name_counts_from_the_top_of_the_image(site: Site) -> None:
    site.unpack([entry("/etc/name", b"1"), entry("./etc/./other", b"2")])
    assert site.tree() == {"etc": "directory", "etc/name": "1", "etc/other": "2"}


def test_a_link_is_replaced_and_never_written_through(site: Site) -> None:
    site.unpack([link("a", str(site.top / "precious")), link("b", str(site.top))])
    site.unpack([entry("a", b"new"), directory("b")])
    assert site.tree() == {"a": "new", "b": "directory"}
    assert site.host.files.read(site.top / "precious") == b"untouched"


def test_the_last_of_entries_of_one_name_counts_and_leaves_hard_links_alone(site: Site) -> None:
    site.unpack(
        [entry("a", b"1"), hard_link("b", "a"), entry("a", b"2"), directory("c"), entry("c/x", b"3"), entry("c", b"4")]
    )
    assert site.tree() == {"a": "2", "b": "1", "c": "4"}


def test_a_directory_again_keeps_what_is_in_it_and_takes_the_new_mode(site: Site) -> None:
    site.unpack([directory("a", 0o700), entry("a/x", b"1")])
    site.unpack([directory("a", 0o755)])
    assert site.tree() == {"a": "directory", "a/x": "1"}
    info = site.host.files.info(site.target / "a")
    assert info is not None
    assert info.mode == 0o755


def test_a_whiteout_hides_what_lower_layers_have_and_no_more(site: Site) -> None:
    site.unpack([directory("d"), entry("d/old", b"1"), entry("d/both", b"1"), directory("gone"), entry("gone/x", b"1")])
    site.unpack(
        [entry("d/both", b"2"), entry("d/.wh.both"), entry("d/.wh.old"), entry(".wh.gone"), entry("x/.wh.never-there")]
    )
    assert site.tree() == {"d": "directory", "d/both": "2"}


@pytest.mark.parametrize("first", [True, False])
def test_an_opaque_directory_hides_lower_layers_wherever_it_says_so(site: Site, *, first: bool) -> None:
    site.unpack([directory("d"), entry("d/old", b"1"), directory("d/sub"), entry("d/sub/old", b"1")])
    opaque, own = [entry("d/.wh..wh..opq")], [directory("d"), directory("d/sub"), entry("d/sub/new", b"2")]
    site.unpack([*opaque, *own] if first else [*own, *opaque])
    assert site.tree() == {"d": "directory", "d/sub": "directory", "d/sub/new": "2"}


def test_a_whiteout_removes_a_link_and_not_what_it_names(site: Site) -> None:
    site.unpack([link("l", str(site.top)), directory("d"), entry("d/x", b"1"), link("to-d", "d")])
    site.unpack([entry(".wh.l"), entry(".wh.to-d")])
    assert site.tree() == {"d": "directory", "d/x": "1"}
    assert site.host.files.read(site.top / "precious") == b"untouched"


def test_whiteouts_are_plain_names_where_there_are_no_layers(site: Site) -> None:
    site.host.files.write(site.top / "archive", archive_of([entry(".wh.x", b"1")]))
    plain = Unpacking(name="layer 1", bytes_limit=1 << 20, entries_limit=10)
    site.host.archives.unpack(site.top / "archive", site.target, plain)
    assert site.tree() == {".wh.x": "1"}


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_long_names_and_links_of_both_formats_are_read(site: Site, form: int) -> None:
    name = "/".join(["n" * 200] * 3)
    site.unpack(archive_of([entry(name, b"1"), link("l", name), hard_link("h", name)], form))
    assert site.read(name) == b"1"
    assert site.host.files.read_link(site.target / "l") == name
    assert site.read("h") == b"1"


def test_owners_and_modes_are_those_of_the_archive(site: Site) -> None:
    site.unpack(
        [
            entry("tool", b"x", mode=0o4755, uid=7, gid=3_000_000_000),
            entry("dir", type=tarfile.DIRTYPE, mode=0o1777, uid=9),
        ]
    )
    tool, made = (site.host.files.info(site.target / name) for name in ("tool", "dir"))
    assert tool is not None
    assert made is not None
    assert (tool.mode, tool.uid, tool.gid) == (0o4755, 7, 3_000_000_000)
    assert (made.mode, made.uid) == (0o1777, 9)


def test_a_bomb_is_stopped_at_the_limit(site: Site) -> None:
    bomb = gzip.compress(archive_of([entry("zeros", bytes(1 << 22))]))
    assert len(bomb) < 1 << 14
    site.refuse(bomb, "unpacks to more than 1048576 bytes; raise the limit", what(bytes_limit=1 << 20))
    site.refuse([entry(f"f{n}") for n in range(11)], "more than 10 entries", what(entries_limit=10))


def test_directories_that_only_a_path_names_count_too(site: Site) -> None:
    site.refuse([entry("d/" * 11 + "x")], "more than 10 entries", what(entries_limit=10))
    assert site.unpack([entry("a/b/c"), entry("a/b/d")]).entries == 4


def test_a_claimed_size_costs_nothing(site: Site) -> None:
    info = tarfile.TarInfo("huge")
    info.size = 1 << 40
    site.refuse(info.tobuf(tarfile.GNU_FORMAT), "ends too early|more than")
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 1 << 33
    site.refuse(header.tobuf(tarfile.GNU_FORMAT), "extended header of 8589934592 bytes")


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "ends too early"),
        (b"\x1f\x8b", "ends too early"),
        (b"\x1f\x8bnonsense" * 100, "damaged"),
        (b"nonsense" * 128, "damaged header"),
        (b"\x28\xb5\x2f\xfd" + bytes(600), "zstd"),
        (archive_of([entry("a", b"x" * 5000)])[:2000], "ends too early"),
        (gzip.compress(archive_of([entry("a", b"x" * 5000)]), mtime=0)[:-9], "ends too early"),
        (archive_of([entry("a")])[:512] + b"\1" * 512, "damaged header"),
    ],
)
def test_what_is_cut_off_or_damaged_is_refused(site: Site, data: bytes, match: str) -> None:
    site.refuse(data, match)


@pytest.mark.parametrize(
    "pax",
    [
        b"no length\n",
        b"9999 path=x\n",
        b"9 path=ab",
        b"0 a=b\n",
        b"12 size=-50\n",
        b"12 uid=abc\n\n",
        b"14 mtime=soon\n",
    ],
)
def test_damaged_pax_headers_are_refused(site: Site, pax: bytes) -> None:
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, len(pax)
    data = header.tobuf(tarfile.USTAR_FORMAT) + pax.ljust(512, b"\0") + archive_of([entry("a")])
    site.refuse(data, "damaged")


def pax_header(content: bytes) -> bytes:
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, len(content)
    return header.tobuf(tarfile.USTAR_FORMAT) + content + bytes(-len(content) % 512)


def test_extended_headers_that_only_add_up_are_refused(site: Site) -> None:
    headers = (pax_header(b"%d %05d=%s\n" % (65544, number, b"x" * 65531)) for number in range(100))
    site.refuse(b"".join(headers), "extended headers of more than 1048576 bytes for one entry")


@pytest.mark.timeout(20)
def test_an_extended_header_of_very_many_lines_is_read_once(site: Site) -> None:
    headers = pax_header(b"5 a=\n" * 200_000) * 10
    site.refuse(headers + archive_of([entry("a/../../b")]), "leads out of the image")


def test_sparse_files_and_what_nobody_knows_are_refused(site: Site) -> None:
    site.refuse([entry("s", pax_headers={"GNU.sparse.major": "1"})], "'s' is a sparse file")
    unknown = tarfile.TarInfo("u")
    unknown.type = b"Z"
    site.refuse(unknown.tobuf(tarfile.USTAR_FORMAT) + bytes(1024), "'u' is of type")


def test_digests_and_sizes_are_compared(site: Site) -> None:
    plain = archive_of([entry("a", b"1")])
    packed = gzip.compress(plain) + gzip.compress(b"")  # two members are one file
    good = what(digest=sha256(packed), size=len(packed), content_digest=sha256(plain))
    assert site.unpack(packed, good) == Unpacked(content=1, entries=1, archive=len(plain))
    site.refuse(packed, "its digest is sha256:.* damaged", what(digest=sha256(plain)))
    site.refuse(packed, "digest of its content is", what(content_digest=sha256(packed)))
    site.refuse(packed, "and its image says", what(size=len(packed) + 1))
    site.refuse(packed, "longer than", what(size=len(packed) - 1))
    site.refuse(packed + b"x", "damaged|ends too early", what(digest=sha256(packed)))
    site.host.archives.verify(site.top / "archive", what(digest=sha256(packed + b"x"), size=len(packed) + 1))
    with pytest.raises(OperationError, match="its digest is"):
        site.host.archives.verify(site.top / "archive", what(digest=sha256(packed)))
    with pytest.raises(SpecError, match="known are sha256"):
        site.unpack(packed, what(digest="md5:00"))


def test_what_is_cancelled_stops(site: Site) -> None:
    site.host.files.write(site.top / "archive", archive_of([entry("a", b"1")]))
    with pytest.raises(TransientError, match="stopped"):
        site.host.archives.unpack(site.top / "archive", site.target, what(), cancelled=lambda: True)
    with pytest.raises(TransientError, match="stopped"):
        site.host.archives.verify(site.top / "archive", what(digest=sha256(b"")), cancelled=lambda: True)


def test_large_archives_report_how_far_they_are(site: Site) -> None:
    site.host.files.write(site.top / "archive", gzip.compress(archive_of([entry("a", bytes(65 << 20))]), 1))
    told: list[str] = []
    site.host.archives.unpack(site.top / "archive", site.target, what(bytes_limit=1 << 30), progress=told.append)
    assert told == ["layer 1: 64 MiB unpacked"]


def test_a_missing_archive_is_named(site: Site) -> None:
    with pytest.raises(OperationError, match=r"cannot read .*nothing"):
        site.host.archives.unpack(site.top / "nothing", site.target, what())


# What a machine in memory does not have


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Site]:
    with RealHosts(tmp_path) as hosts:
        made = Site(*hosts.fresh())
        made.begin()
        yield made


def test_times_attributes_and_hard_links_are_those_of_the_archive(real: Site) -> None:
    real.unpack(
        [
            entry("d", type=tarfile.DIRTYPE, mode=0o755, mtime=1_000_000_000),
            entry(
                "d/a",
                b"1",
                mtime=1_234_567_890,
                pax_headers={"SCHILY.xattr.user.colour": "blue", "mtime": "1234567890.5"},
            ),
            hard_link("d/b", "d/a"),
            link("d/l", "a"),
            entry("t", b"", pax_headers={"SCHILY.xattr.trusted.overlay.opaque": "y"}),
        ]
    )
    found = (real.target / "d/a").stat()
    assert found.st_mtime == 1_234_567_890.5
    assert (real.target / "d").stat().st_mtime == 1_000_000_000
    assert os.getxattr(real.target / "d/a", "user.colour") == b"blue"
    assert os.listxattr(real.target / "t") == []
    assert (real.target / "d/b").stat().st_ino == found.st_ino


def test_the_umask_of_the_daemon_does_not_matter(real: Site) -> None:
    old = os.umask(0o077)
    try:
        real.unpack([entry("made/for/it", b"1")])
    finally:
        os.umask(old)
    assert stat.S_IMODE((real.target / "made/for").stat().st_mode) == 0o755


def test_an_archive_that_is_no_file_is_refused_at_once(real: Site) -> None:
    os.mkfifo(real.top / "fifo")
    with pytest.raises(OperationError, match="no regular file"):
        real.host.archives.unpack(real.top / "fifo", real.target, what())


def test_a_tree_deeper_than_a_path_is_removed_by_a_whiteout(real: Site) -> None:
    real.unpack([entry("d/" * 1500 + "x", b"1")], what(entries_limit=2000))
    real.unpack([entry(".wh.d")])
    assert real.tree() == {}


# Whatever anybody writes


NAMES = st.lists(
    st.sampled_from(["a", "b", "c", "..", ".", "", ".wh.a", ".wh.b", ".wh..wh..opq"]), min_size=1, max_size=3
)
PATHS = st.builds("/".join, NAMES)
ENTRIES = st.one_of(
    st.builds(entry, PATHS, st.sampled_from([b"", b"1", b"22"]), mode=st.sampled_from([0o644, 0o4755]), uid=st.just(7)),
    st.builds(directory, PATHS, st.sampled_from([0o755, 0o700])),
    st.builds(link, PATHS, st.sampled_from(["a", "b", "../b", "/a", "../../../..", "/srv", "c/../a", "."])),
    st.builds(hard_link, PATHS, PATHS),
    st.builds(entry, PATHS, type=st.sampled_from([tarfile.FIFOTYPE, tarfile.CHRTYPE])),
)
LAYERS = st.lists(st.lists(ENTRIES, max_size=6), min_size=1, max_size=3)


def outcome(site: Site, number: int, layers: list[list[tuple[tarfile.TarInfo, bytes]]]) -> list[object]:
    """Unpack layers; give what was said of each, and what is there then unless one was refused, which leaves a part."""
    target = site.target / str(number)
    site.host.files.ensure_directory(target, 0o755)
    said: list[object] = []
    for layer in layers:
        site.host.files.write(site.top / "archive", archive_of(layer))
        try:
            said.append(site.host.archives.unpack(site.top / "archive", target, what()))
        except OperationError as error:
            said.append(str(error).split(": ")[1])
            break
    else:
        found = {str(path.relative_to(target)): text for path, text in snapshot(site.host, target).items()}
        said.append(found)
    site.host.files.remove_tree(target)
    return [*said, site.outside[1]]


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Site, Site]]:
    memory = FakeHost()
    memory.mkdir("/srv/top")
    with RealHosts(tmp_path) as hosts:
        sites = Site(*hosts.fresh()), Site(memory, Path("/srv/top"))
        for site in sites:
            site.begin()
        yield sites


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
@given(layers=LAYERS)
def test_the_kernel_and_the_host_in_memory_make_the_same_of_all_archives(
    both: tuple[Site, Site], layers: list[list[tuple[tarfile.TarInfo, bytes]]]
) -> None:
    real, memory = (outcome(site, 1, layers) for site in both)
    assert real == memory
    assert real[-1] == b"untouched"


WHOLE = archive_of(
    [entry("a/b", b"x" * 600), link("l", "a"), entry("n" * 120, b"y", pax_headers={"comment": "z" * 90})]
)


@settings(max_examples=150)
@given(
    packed=st.booleans(),
    changes=st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), max_size=6),
    end=st.integers(0, len(WHOLE)),
)
def test_a_damaged_archive_is_refused_or_read_and_never_a_traceback(
    packed: bool, changes: list[tuple[int, int]], end: int
) -> None:
    data = bytearray(gzip.compress(WHOLE, mtime=0) if packed else WHOLE)
    for place, value in changes:
        data[place % len(data)] = value
    host = FakeHost()
    site = Site(host, Path("/srv"))
    site.begin()
    with suppress(OperationError):
        site.unpack(bytes(data[:end]))
    assert site.host.files.read(site.top / "precious") == b"untouched"
