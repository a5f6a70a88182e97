"""Tokens on disk: until they end or their Pod does, in files that only their owner reads, and named in no message."""

from __future__ import annotations

import json
import logging

import pytest

from tests.unit.kube.recording import Clock
from volmgr import records
from volmgr.kube.checkpoint import TokensOnDisk, forget_secrets
from volmgr.testing import FakeHost

TOKEN = b"header.payload.signature"


class Bench:
    def __init__(self) -> None:
        self.host = FakeHost()
        self.clock = Clock()
        self.tokens = self.restarted()
        self.directory = self.host.paths.secrets / "tokens"

    def restarted(self) -> TokensOnDisk:
        return TokensOnDisk(self.host.files, self.host.paths, self.clock)

    def mode(self, *parts: str) -> int:
        info = self.host.files.info(self.host.paths.secrets.joinpath(*parts))
        assert info is not None
        return info.mode


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_token_is_given_after_a_restart_until_it_ends(bench: Bench) -> None:
    bench.tokens.put("uid-a", "key", TOKEN, 2000.0)
    again = bench.restarted()
    assert again.get("uid-a", "key") == TOKEN
    assert (again.get("uid-a", "other"), again.get("uid-b", "key")) == (None, None)
    bench.clock.now = 2000.0
    assert again.get("uid-a", "key") is None


def test_only_the_owner_may_look(bench: Bench) -> None:
    bench.host.files.ensure_directory(bench.host.paths.secrets, 0o755)
    bench.tokens.put("uid-a", "key", TOKEN, 2000.0)
    assert [bench.mode(), bench.mode("tokens"), bench.mode("tokens", "uid-a")] == [0o700] * 3
    assert bench.mode("tokens", "uid-a", records.file_name("key")) == 0o600


def test_the_newest_of_a_key_is_kept(bench: Bench) -> None:
    bench.tokens.put("uid-a", "key", TOKEN, 2000.0)
    bench.tokens.put("uid-a", "key", b"newer", 3000.0)
    assert bench.tokens.get("uid-a", "key") == b"newer"
    assert len(bench.host.files.names(bench.directory / "uid-a")) == 1


def test_what_is_kept_goes_with_the_pod(bench: Bench) -> None:
    for uid in ("uid-a", "uid-b", "uid-c"):
        bench.tokens.put(uid, "key", TOKEN, 2000.0)
    bench.tokens.forget("uid-a")
    assert bench.host.files.names(bench.directory) == ("uid-b", "uid-c")
    bench.tokens.retain({"uid-c", "uid-d"})
    assert bench.host.files.names(bench.directory) == ("uid-c",)
    bench.tokens.forget("uid-a")  # nothing is left of it


@pytest.mark.parametrize("text", [b"{", b"", TOKEN, b'{"kind":"token","version":99}'])
def test_a_damaged_one_is_not_there_and_named_without_its_content(
    bench: Bench, text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    bench.tokens.put("uid-a", "key", TOKEN, 2000.0)
    path = bench.directory / "uid-a" / records.file_name("key")
    bench.host.files.write(path, text)
    assert bench.tokens.get("uid-a", "key") is None
    assert str(path) in caplog.text
    assert TOKEN.decode() not in caplog.text
    bench.tokens.put("uid-a", "key", TOKEN, 2000.0)
    assert bench.tokens.get("uid-a", "key") == TOKEN


def test_everything_secret_goes_at_once(bench: Bench) -> None:
    bench.tokens.put("uid-a", "key", TOKEN, 2000.0)
    bench.tokens.put("uid-b", "key", TOKEN, 2000.0)
    bench.host.files.ensure_directory(bench.host.paths.secrets / "objects", 0o700)
    bench.host.files.write(bench.host.paths.secrets / "objects" / "Secret.json", json.dumps({}).encode())
    assert forget_secrets(bench.host.files, bench.host.paths) == 3
    assert bench.host.files.info(bench.host.paths.secrets) is None
    assert forget_secrets(bench.host.files, bench.host.paths) == 0
