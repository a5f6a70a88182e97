"""Images and volumes of them, for the tests beside this module."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from volmgr.plugin import Pod, VolmgrError
from volmgr.testing import FakeHost, Volume, pod
from volmgr_image.contract import layout, tar, write
from volmgr_image.plugin import Image
from volmgr_image.source import ImageSource

TOP = Path("/srv/images")
STATE = Path("/var/lib/volmgr/volmgr/images")


def volume(reference: str, policy: str = "", *, of: Pod | None = None) -> Volume:
    return Volume(Image(), ImageSource(reference=reference, pull_policy=policy), pod=of or pod())


def host_with(files: Mapping[str, bytes | None], name: str = "layout") -> FakeHost:
    host = FakeHost()
    host.mkdir(TOP)
    write(host, TOP / name, files)
    return host


def one(name: str = "file", content: bytes = b"1") -> dict[str, bytes | None]:
    return layout([tar({name: content})])


def read(host: FakeHost, wanted: Volume, name: str = "file") -> bytes | None:
    path = wanted.mount(host).path
    assert path is not None
    return host.files.read(path / name)


def refused(host: FakeHost, wanted: Volume, match: str) -> str:
    with pytest.raises(VolmgrError, match=match) as caught:
        wanted.mount(host)
    assert host.table == {}
    assert host.files.names(STATE / "uses") == ()
    return str(caught.value)
