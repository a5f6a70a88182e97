"""projected on this machine: whose a token is, and what changes when it is replaced."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import jwt
import pytest

from volmgr.plugin import ConfigMap, Host, ObjectMeta
from volmgr.testing import Volume
from volmgr.testing.issuer import issuer_of
from volmgr.testing.real_host import RealHosts
from volmgr_projected.plugin import Projected
from volmgr_projected.sources import ObjectProjection, ProjectedSource, Source, TokenProjection

pytestmark = pytest.mark.root

TOKEN = Source(service_account_token=TokenProjection(path="tokens/vault", audience="vault"))
SETTINGS = ConfigMap(metadata=ObjectMeta(name="settings"), data={"a": "1"})


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with RealHosts(tmp_path / "hosts") as hosts:
        fresh = hosts.fresh()[0]
        yield fresh.with_tokens(issuer_of(fresh, time.time))


def volume() -> Volume:
    source = ProjectedSource(sources=(TOKEN, Source(config_map=ObjectProjection(name="settings"))))
    wanted = Volume(Projected(), source)
    (_, reference) = wanted.plugin.references(wanted.spec, wanted.pod)
    return Volume(Projected(), source, objects={reference.ref: SETTINGS})


@pytest.mark.parametrize(
    ("user", "group", "mode"), [(None, None, 0o644), (4321, None, 0o600), (None, 8765, 0o640), (4321, 8765, 0o640)]
)
def test_a_token_is_its_user_s_and_its_group_s_alone(
    host: Host, user: int | None, group: int | None, mode: int
) -> None:
    wanted = volume()
    for _ in range(2):
        wanted.mount(host, fs_user=user, fs_group=group)
    found = (wanted.target(host) / "tokens/vault").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == (mode, user or 0, group or 0)
    assert host.mounts.file_system(wanted.target(host)).type == "tmpfs"


def test_mounting_again_keeps_the_very_file_while_its_token_is_good(host: Host) -> None:
    wanted = volume()
    place = wanted.target(host) / "tokens/vault"
    first = wanted.mount(host)
    before = (place.read_text(), place.stat().st_ino)
    again = wanted.mount(host, remount=True)
    assert (place.read_text(), place.stat().st_ino) == before
    assert first == again
    said = jwt.decode(before[0], options={"verify_signature": False})
    assert first.due_at == said["iat"] + 0.8 * 3600


def published(host: Host, wanted: Volume) -> Path:
    """Give the very place of the token, past the links."""
    target = wanted.target(host)
    return target / os.readlink(target / "..data") / "tokens/vault"


def link(place: Path) -> None:
    place.symlink_to("/etc/passwd")


@pytest.mark.parametrize("make", [link, os.mkfifo, os.mkdir])
def test_what_was_put_in_the_token_s_place_is_neither_followed_nor_waited_for(
    host: Host, make: Callable[[Path], None]
) -> None:
    wanted = volume()
    wanted.mount(host)
    published(host, wanted).unlink()
    make(published(host, wanted))
    wanted.mount(host, remount=True)
    assert stat.S_ISREG(published(host, wanted).lstat().st_mode)
    assert published(host, wanted).read_text().startswith("eyJ")
