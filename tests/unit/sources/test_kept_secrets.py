"""Secrets and the registry: kept for a start without a server where that was asked for, and nowhere else."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterator

import pytest

from volmgr import manifest, records
from volmgr.host.paths import Paths
from volmgr.manifest import Parsed
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import Secret
from volmgr.sources.changes import Change, Complaints, ObjectChanged, ObjectLeft
from volmgr.sources.offers import API_SERVER
from volmgr.sources.registry import Registry
from volmgr.testing import FakeHost

VALUE = "no one may read this"
REF = ObjectRef("Secret", "shop", "login")
ORIGIN = "secrets/shop/login"


class Bench:
    def __init__(self, host: FakeHost | None = None, *, keeps: bool = True) -> None:
        self.host = host or FakeHost()
        self.told: list[Change] = []
        self.registry = Registry(
            self.host.files, self.host.paths, self.told.append, binds_claims=False, keeps_secrets=keeps
        )
        self.registry.start()

    def show(self, value: str = VALUE, version: str = "7", *, source: str = API_SERVER) -> None:
        document = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"namespace": "shop", "name": "login", "resourceVersion": version},
            "data": {"password": base64.b64encode(value.encode()).decode()},
        }
        item = manifest.Item(manifest.read_object(document), 1, json.dumps(document).encode())
        self.registry.offer(source, ORIGIN, version, Parsed(items=(item,)), read_at=5.0)

    def values(self) -> list[bytes]:
        """Give what was told of the Secret."""
        changes = [change.item for change in self.told if isinstance(change, ObjectChanged)]
        return [item.data["password"] for item in changes if isinstance(item, Secret)]

    def records(self) -> dict[str, int]:
        """Give the mode of each record of a Secret."""
        directory = self.host.paths.secrets / "objects"
        found = {name: self.host.files.info(directory / name) for name in self.host.files.names(directory)}
        return {name: info.mode for name, info in found.items() if info is not None}


def everything(bench: Bench) -> Iterator[bytes]:
    """Give the content of every file of the host below its root."""
    paths: Paths = bench.host.paths
    waiting = [paths.root]
    while waiting:
        path = waiting.pop()
        for name in bench.host.files.names(path):
            info = bench.host.files.info(path / name)
            assert info is not None
            if info.kind == "directory":
                waiting.append(path / name)
            else:
                yield bench.host.files.read(path / name) or b""


def test_without_the_setting_nothing_of_a_secret_is_written() -> None:
    bench = Bench(keeps=False)
    bench.show()
    bench.registry.keep([REF])
    bench.registry.retain([REF])
    text = b"".join(everything(bench))
    assert VALUE.encode() not in text
    assert base64.b64encode(VALUE.encode()) not in text
    assert Bench(bench.host, keeps=False).values() == []


def test_a_kept_secret_stands_after_a_restart_with_its_revision_and_age() -> None:
    bench = Bench()
    bench.show()
    assert bench.records() == {}  # nobody uses it
    bench.registry.keep([REF])
    assert list(bench.records().values()) == [0o600]
    for directory in (bench.host.paths.secrets, bench.host.paths.secrets / "objects"):
        info = bench.host.files.info(directory)
        assert info is not None
        assert info.mode == 0o700
    again = Bench(bench.host)
    (change,) = [each for each in again.told if isinstance(each, ObjectChanged)]
    assert (change.revision, change.read_at) == ("7", 5.0)
    assert again.values() == [VALUE.encode()]


def test_a_kept_secret_follows_the_server() -> None:
    bench = Bench()
    bench.show()
    bench.registry.keep([REF])
    bench.show("another", "8")
    assert Bench(bench.host).values() == [b"another"]
    assert VALUE.encode() not in b"".join(everything(bench))
    bench.registry.withdraw(API_SERVER, ORIGIN)
    assert bench.records() == {}


def test_a_kept_secret_goes_when_nobody_uses_it() -> None:
    bench = Bench()
    bench.show()
    bench.registry.keep([REF])
    again = Bench(bench.host)
    again.registry.retain([REF])
    assert again.records()
    again.registry.retain([])
    assert again.records() == {}
    assert isinstance(again.told[-1], ObjectLeft)  # nobody would hear of its changes


def test_a_secret_of_a_manifest_is_never_kept() -> None:
    bench = Bench()
    bench.show(source="directory")
    bench.registry.keep([REF])
    assert bench.records() == {}


def test_a_start_without_the_setting_does_not_read_what_is_left() -> None:
    bench = Bench()
    bench.show()
    bench.registry.keep([REF])
    assert Bench(bench.host, keeps=False).values() == []


@pytest.mark.parametrize("text", ['{"kind": "secret", "vers', '{"kind":"object","version":1}', "", VALUE])
def test_a_damaged_secret_is_not_there_and_named_without_its_content(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    bench = Bench()
    bench.show()
    bench.registry.keep([REF])
    (name,) = bench.records()
    path = bench.host.paths.secrets / "objects" / name
    bench.host.files.write(path, f"{text}{base64.b64encode(VALUE.encode()).decode()}".encode())
    again = Bench(bench.host)
    (complaints,) = [each for each in again.told if isinstance(each, Complaints)]
    said = " ".join(map(str, complaints.errors)) + caplog.text
    assert str(path) in said
    assert VALUE not in said
    assert base64.b64encode(VALUE.encode()).decode() not in said
    assert again.values() == []
    again.show()
    again.registry.keep([REF])
    assert again.told[-1] == Complaints(str(path), ())
    assert Bench(bench.host).values() == [VALUE.encode()]


def test_a_damaged_secret_that_nobody_uses_goes() -> None:
    bench = Bench()
    bench.show()
    bench.registry.keep([REF])
    (name,) = bench.records()
    bench.host.files.write(bench.host.paths.secrets / "objects" / name, b"damaged")
    again = Bench(bench.host)
    again.registry.retain([])
    assert again.records() == {}


def test_what_a_daemon_that_was_killed_has_left_of_a_write_is_removed() -> None:
    bench = Bench()
    left = [bench.host.paths.secrets / "objects", bench.host.paths.secrets / "tokens" / "uid-a"]
    for directory in left:
        bench.host.files.ensure_directory(directory, 0o700)
        bench.host.files.write(directory / ".Secret.json.1.2.tmp", VALUE.encode())
    records.sweep(bench.host.files, bench.host.paths.state)
    assert [bench.host.files.names(directory) for directory in left] == [(), ()]


def test_one_record_that_takes_the_place_of_another_is_damaged() -> None:
    bench = Bench()
    bench.show()
    bench.registry.keep([REF])
    (name,) = bench.records()
    directory = bench.host.paths.secrets / "objects"
    bench.host.files.rename(directory / name, directory / "other.json")
    again = Bench(bench.host)
    assert again.values() == []
    assert [each.origin for each in again.told if isinstance(each, Complaints)] == [str(directory / "other.json")]
