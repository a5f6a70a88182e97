"""configMap on this machine's kernel, where it says more than a host in memory can."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from volmgr.plugin import ConfigMap, Host, ObjectMeta, ObjectRef
from volmgr.testing import Volume
from volmgr.testing.real_host import RealHosts
from volmgr_configmap.plugin import ConfigMapSource, ConfigMapVolume

pytestmark = pytest.mark.root
REF = ObjectRef("ConfigMap", "default", "settings")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with RealHosts(tmp_path) as hosts:
        yield hosts.fresh()[0]


def volume(data: dict[str, str], binary: dict[str, bytes] | None = None, mode: int | None = None) -> Volume:
    found = ConfigMap(metadata=ObjectMeta(name="settings"), data=data, binary_data=binary or {})
    return Volume(ConfigMapVolume(), ConfigMapSource(name="settings", default_mode=mode), objects={REF: found})


def test_it_lies_on_disk_with_exact_bytes_and_modes_whatever_the_umask_is(host: Host) -> None:
    of = volume({"text": "ä\n"}, {"raw": bytes(range(256))}, mode=0o666)
    before = os.umask(0o077)
    try:
        of.mount(host)
    finally:
        os.umask(before)
    top = of.target(host)
    assert host.mounts.entry(top) is None
    assert (top / "text").read_bytes() == "ä\n".encode()
    assert (top / "raw").read_bytes() == bytes(range(256))
    assert stat.S_IMODE((top / "raw").stat().st_mode) == 0o666
    assert stat.S_IMODE(top.stat().st_mode) == 0o777


def test_a_key_as_large_as_the_api_allows_is_compared_and_replaced_whole(host: Host) -> None:
    of = volume({}, {"big": os.urandom(1 << 20)})
    of.mount(host)
    first = os.readlink(of.target(host) / "..data")
    of.mount(host)
    assert os.readlink(of.target(host) / "..data") == first
    other = os.urandom(1 << 20)
    volume({}, {"big": other}).mount(host, remount=True)
    assert (of.target(host) / "big").read_bytes() == other
    assert [name for name in os.listdir(of.target(host)) if name.startswith("..2")] == [
        os.readlink(of.target(host) / "..data")
    ]


def test_links_of_a_container_lead_the_daemon_nowhere(host: Host, tmp_path: Path) -> None:
    of = volume({"key": "right"})
    of.mount(host)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "key").write_text("a user's")
    data = of.target(host) / "..data"
    data.unlink()
    data.symlink_to(outside)
    of.mount(host)
    assert (of.target(host) / "key").read_text() == "right"
    assert (outside / "key").read_text() == "a user's"
    data.unlink()
    data.symlink_to("../../../../../../outside")
    of.unmount(host)
    assert (outside / "key").read_text() == "a user's"
    assert not of.target(host).exists()
