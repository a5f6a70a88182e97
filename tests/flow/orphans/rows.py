"""What restarts, orphans and busy mounts have cost others (reports.md, I…; scenarios.md, C56-61 and 179).

Each row is a function of a site, so that it is held against the host in memory and against the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.flow.core.probes import claim_of, storage
from tests.flow.machine.sites import Site
from volmgr.model.names import escape
from volmgr.model.volume import Presence
from volmgr.plugin import VolumePlugin
from volmgr.report.orphans import orphans_report
from volmgr.testing import FaultHost
from volmgr.testing.loopdisk import LoopDisk
from volmgr.testing.node import FILES, TestNode, plugins_of, pod
from volmgr_emptydir.plugin import EmptyDir
from volmgr_hostpath.plugin import HostPath

Row = Callable[[Site], None]

DISK: dict[str, Any] = {"name": "disk", "emptyDir": {}}
MEMORY: dict[str, Any] = {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
CSI = "kubernetes.io~csi"
CALM = 125.0


class Bench:
    """A root that was volmgr's before, and the node that starts on it."""

    def __init__(self, site: Site, *types: VolumePlugin[Any]) -> None:
        self.site = site
        self.types = types or (EmptyDir(), HostPath(), LoopDisk())
        self.host = FaultHost(site.host())
        self.node = TestNode(self.host, plugins_of(*self.types), sources=("api", FILES))
        self.node.sources_ready()

    def restart(self, *types: VolumePlugin[Any], ready: bool = True) -> TestNode:
        """Start the daemon anew, with these types or those that it had."""
        self.host = FaultHost(self.site.host())
        self.node.host = self.host
        self.node.plugins = plugins_of(*(types or self.types))
        self.node.start()
        self.node.settle()
        if ready:
            self.node.sources_ready()
        return self.node

    def pod_path(self, uid: str) -> Path:
        return self.host.paths.pod(uid)

    def volume(self, uid: str, name: str) -> Path:
        """Give the directory of an emptyDir."""
        return self.host.paths.volumes(uid) / escape(EmptyDir.name) / name

    def make(self, path: Path, content: bytes | None = None) -> Path:
        """Make a directory, or a file and its directories."""
        if content is None:
            assert self.site.mkdir(path)
        else:
            assert self.site.mkdir(path.parent)
            assert self.site.put(path, content)
        return path

    def is_gone(self, uid: str) -> bool:
        return uid not in self.site.names(self.host.paths.pods)

    def mounted(self) -> list[Path]:
        return [path for path, _, _ in self.site.mounts()]

    def named(self, uid: str) -> list[str]:
        """Give the paths that `volmgr orphans` names for a Pod."""
        return [orphan.path for orphan in orphans_report(self.node.world).orphans if orphan.pod_uid == uid]


def an_empty_directory_of_an_unknown_pod_goes_though_no_package_serves_it(site: Site) -> None:  # I01 a
    bench = Bench(site)
    bench.make(bench.pod_path("gone") / "volumes" / CSI / "pv1" / "mount")
    bench.restart()
    assert bench.is_gone("gone")
    assert bench.named("gone") == []


def a_mount_of_an_unknown_pod_goes_when_its_type_serves_it(site: Site) -> None:  # I01 b
    bench = Bench(site)
    path = bench.make(bench.volume("gone", "v"))
    bench.host.inner.mounts.ensure_mounted(path, "tmpfs")
    bench.restart()
    assert bench.mounted() == []
    assert bench.is_gone("gone")


def a_mount_of_an_unknown_pod_stays_and_is_named_when_no_package_serves_it(site: Site) -> None:  # 179
    for below in ("", "mount"):
        bench = Bench(site)
        volume = bench.pod_path(f"gone{below}") / "volumes" / CSI / "pv1"
        path = bench.make(volume / below)
        bench.host.inner.mounts.ensure_mounted(path, "tmpfs")
        bench.restart()
        assert path in bench.mounted()
        assert str(volume) in bench.named(f"gone{below}")


def a_file_in_an_orphaned_directory_is_kept_and_said_once(site: Site) -> None:  # I01 c
    bench = Bench(site)
    path = bench.make(bench.pod_path("gone") / "volumes" / CSI / "pv1" / "mount" / "data", b"of a user")
    node = bench.restart()
    for _ in range(3):
        node.advance(CALM)
    assert site.content(path) == b"of a user"
    assert str(path.parent.parent) in bench.named("gone")
    assert len([text for text in node.warnings() if "pv1" in text]) == 1


def data_behind_a_sub_path_of_an_unknown_pod_survives(site: Site) -> None:  # I02
    bench = Bench(site)
    data = bench.make(site.top / "d1" / "sub" / "data", b"a third of a cluster")
    empty = bench.make(site.top / "d1" / "sub" / "empty", b"")
    target = bench.make(bench.pod_path("gone") / "volume-subpaths" / "pv" / "c" / "0")
    bench.make(bench.pod_path("gone") / "volumes")
    site.bind(data.parent, target)
    bench.restart()
    assert site.content(data) == b"a third of a cluster"
    assert site.content(empty) == b""
    assert bench.mounted() == []
    assert bench.is_gone("gone")


def a_busy_sub_path_costs_nobody_a_file_and_goes_when_it_is_free(site: Site) -> None:  # I02, I04
    bench = Bench(site)
    data = bench.make(site.top / "d1" / "data", b"kept")
    target = bench.make(bench.pod_path("gone") / "volume-subpaths" / "pv" / "c" / "0")
    site.bind(data.parent, target)
    site.hold_open(target)
    node = bench.restart()
    assert bench.mounted() == [target]
    assert site.content(data) == b"kept"
    assert bench.named("gone") != []
    site.let_go()
    node.advance(1.0)
    assert bench.is_gone("gone")
    assert site.content(data) == b"kept"


def what_others_mounted_in_an_empty_dir_keeps_its_content_and_does_not_stop_the_teardown(site: Site) -> None:  # I06
    bench = Bench(site)
    log = bench.make(site.top / "log", b"of others")
    bench.node.apply(pod("web", DISK, MEMORY, uid="web"))
    for volume in ("disk", "memory"):
        site.bind(log, bench.make(bench.volume("web", volume) / "log.txt", b""))
    bench.node.delete("web")
    assert bench.is_gone("web")
    assert bench.mounted() == []
    assert site.content(log) == b"of others"


def a_pod_that_left_while_the_daemon_was_down_goes_with_its_sub_paths(site: Site) -> None:  # I08
    bench = Bench(site)
    data = bench.make(site.top / "data" / "file", b"kept")
    bench.node.put_file("web.yaml", pod("web", {"name": "v", "hostPath": {"path": str(site.top)}}, uid="web"))
    site.bind(data.parent, bench.make(bench.pod_path("web") / "volume-subpaths" / "v" / "main" / "0"))
    node = bench.restart(ready=False)
    assert len(bench.mounted()) == 1, "nothing goes before every source was read"
    node.remove_file("web.yaml")
    node.sources_ready()
    assert bench.is_gone("web")
    assert bench.mounted() == []
    assert site.content(data) == b"kept"


def after_a_reboot_nothing_counts_as_mounted_before_it_was_mounted_again(site: Site) -> None:  # I11
    bench = Bench(site)
    bench.node.apply(pod("web", DISK, MEMORY, uid="web"))
    site.reboot()
    bench.host = FaultHost(site.host())
    node = bench.node
    node.host = bench.host
    node.start()
    steps = 0
    while not node.is_mounted("web"):
        node.step()
        steps += 1
        assert steps < 100, node.warnings()
    assert bench.host.verbs.count("mounts.ensure_mounted") == 1
    assert bench.mounted() == [bench.volume("web", "memory")]


def a_terminating_pod_that_somebody_holds_keeps_its_files_over_a_restart(site: Site) -> None:  # I13
    bench = Bench(site)
    web = pod("web", DISK, MEMORY, uid="web")
    bench.node.apply(web)
    hold = bench.node.hold("web", 100)
    files = [bench.make(bench.volume("web", name) / "data", b"still written") for name in ("disk", "memory")]
    bench.node.apply({**web, "metadata": {**web["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})
    node = bench.restart()
    node.advance(CALM)
    assert [site.content(path) for path in files] == [b"still written"] * 2
    node.release(hold)
    assert bench.mounted() == []
    assert bench.is_gone("web")


def a_disk_empty_dir_outlives_a_reboot_and_a_memory_one_a_restart(site: Site) -> None:  # I52
    bench = Bench(site)
    bench.node.apply(pod("web", DISK, MEMORY, uid="web"))
    disk, memory = (bench.make(bench.volume("web", name) / "marker", b"x") for name in ("disk", "memory"))
    assert bench.restart().is_mounted("web")
    assert (site.content(disk), site.content(memory)) == (b"x", b"x")
    site.reboot()
    assert bench.restart().is_mounted("web")
    assert (site.content(disk), site.content(memory)) == (b"x", None)


def a_large_empty_dir_goes_at_once_and_is_deleted_behind(site: Site) -> None:  # I53
    bench = Bench(site)
    bench.node.apply(pod("web", DISK, uid="web"))
    for number in range(300):
        bench.make(bench.volume("web", "disk") / f"file-{number}", b"x")
    bench.node.delete("web")
    assert bench.is_gone("web")
    bench.node.apply(pod("next", DISK, uid="next"))
    assert bench.node.is_mounted("next")
    site.settle()
    assert site.names(bench.host.paths.trash) == []


def nothing_is_unmounted_before_every_source_was_read_but_mounts_go_on(site: Site) -> None:  # C56
    bench = Bench(site)
    path = bench.make(bench.volume("gone", "v"))
    bench.host.inner.mounts.ensure_mounted(path, "tmpfs")
    node = bench.restart(ready=False)
    for _ in range(100):
        node.advance(CALM)
    assert bench.mounted() == [path]
    node.apply(pod("web", MEMORY, uid="web"))
    assert node.is_mounted("web")
    node.sources_ready()
    assert bench.mounted() == [bench.volume("web", "memory")]


def a_volume_found_at_start_is_uncertain_until_it_is_mounted_again(site: Site) -> None:  # C57, C59
    bench = Bench(site)
    bench.node.apply(pod("web", MEMORY, uid="web"))
    for name in site.names(bench.host.paths.state / "mounts" / "web"):
        bench.host.inner.files.remove_file(bench.host.paths.state / "mounts" / "web" / name)
    bench.host = FaultHost(site.host())
    bench.node.host = bench.host
    bench.node.start()
    assert bench.node.step()
    bench.node.reconciler.step()
    (volume,) = bench.node.world.actual
    assert volume.reconstructed
    assert volume.mounts["web"].state is Presence.UNCERTAIN
    bench.node.settle()
    (volume,) = bench.node.world.actual
    assert not volume.reconstructed
    assert volume.mounts["web"].state is Presence.YES
    assert bench.mounted() == [bench.volume("web", "memory")]


def a_device_goes_once_after_the_last_of_two_pods_even_over_a_restart(site: Site) -> None:  # C61, I90
    bench = Bench(site)
    image = site.top / "disk.img"
    site.disk_image(image)
    bench.node.put_file("disk.yaml", *storage("disk", source={"loopDisk": {"path": str(image)}}, size="1Mi"))
    for name in ("a", "b"):
        bench.node.apply(pod(name, claim_of("data", "disk"), uid=name))
    assert len(site.loops(image)) == 1
    node = bench.restart()
    node.delete("a")
    assert len(bench.mounted()) == 2
    node.delete("b")
    assert bench.mounted() == []
    assert site.loops(image) == ()
    assert bench.host.verbs.count("block.detach_loop") == 1


def a_busy_mount_is_never_unmounted_lazily_and_goes_within_a_retry_of_its_release(site: Site) -> None:  # I04
    bench = Bench(site)
    node = bench.node
    node.apply(pod("web", MEMORY, uid="web"))
    path = bench.volume("web", "memory")
    bench.make(path / "data", b"in use")
    site.hold_open(path)
    node.delete("web")
    for _ in range(5):
        node.advance(CALM)
    assert site.content(path / "data") == b"in use"
    assert "held by" in node.warnings()[-1], "it names who keeps it busy"
    node.apply(pod("other", MEMORY, uid="other"))
    assert node.is_mounted("other"), "other Pods are unaffected"
    site.let_go()
    node.advance(CALM)
    assert bench.is_gone("web")
    assert bench.mounted() == [bench.volume("other", "memory")]
    unmounts = [call for call in bench.host.trace if call.verb == "mounts.unmount"]
    assert not any(call.kwargs.get("lazy") for call in unmounts)


def volumes_of_a_type_that_is_not_installed_stay_are_named_and_go_when_it_returns(site: Site) -> None:
    bench = Bench(site)
    bench.node.apply(pod("web", MEMORY, DISK, uid="web"))
    data = bench.make(bench.volume("web", "disk") / "data", b"kept")
    node = bench.restart(HostPath())
    node.delete("web")
    node.advance(CALM)
    assert site.content(data) == b"kept"
    assert bench.mounted() == [bench.volume("web", "memory")]
    assert sorted(bench.named("web")) == [str(bench.volume("web", name)) for name in ("disk", "memory")]
    bench.restart()
    assert bench.is_gone("web")
    assert bench.mounted() == []


ROWS: tuple[Row, ...] = (
    an_empty_directory_of_an_unknown_pod_goes_though_no_package_serves_it,
    a_mount_of_an_unknown_pod_goes_when_its_type_serves_it,
    a_mount_of_an_unknown_pod_stays_and_is_named_when_no_package_serves_it,
    a_file_in_an_orphaned_directory_is_kept_and_said_once,
    data_behind_a_sub_path_of_an_unknown_pod_survives,
    a_busy_sub_path_costs_nobody_a_file_and_goes_when_it_is_free,
    what_others_mounted_in_an_empty_dir_keeps_its_content_and_does_not_stop_the_teardown,
    a_pod_that_left_while_the_daemon_was_down_goes_with_its_sub_paths,
    after_a_reboot_nothing_counts_as_mounted_before_it_was_mounted_again,
    a_terminating_pod_that_somebody_holds_keeps_its_files_over_a_restart,
    a_disk_empty_dir_outlives_a_reboot_and_a_memory_one_a_restart,
    a_large_empty_dir_goes_at_once_and_is_deleted_behind,
    nothing_is_unmounted_before_every_source_was_read_but_mounts_go_on,
    a_volume_found_at_start_is_uncertain_until_it_is_mounted_again,
    a_device_goes_once_after_the_last_of_two_pods_even_over_a_restart,
    a_busy_mount_is_never_unmounted_lazily_and_goes_within_a_retry_of_its_release,
    volumes_of_a_type_that_is_not_installed_stay_are_named_and_go_when_it_returns,
)
