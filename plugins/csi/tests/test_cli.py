"""`volmgr csi` against a driver that mounts: what publish does, unpublish undoes, whatever happens in between."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess  # noqa: TID251 - commands that are killed are processes
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.csi.fault_driver.kernel import is_mounted, unmount
from tests.csi.fault_driver.profile import ATTACH, CONTROLLER, EVERYTHING, STATS
from tests.csi.fault_driver.rules import Rule
from tests.csi.fault_driver.running import ThreadDriver, running_fault_driver
from volmgr.cli.app import cli
from volmgr.cli.packages import OURS
from volmgr_csi.cli.parameters import ACCESS_MODES
from volmgr_csi.cli.publish import Publication
from volmgr_csi.cli.steps import Steps
from volmgr_csi.node.attributes import Told
from volmgr_csi.node.questions import Given
from volmgr_csi.v1 import csi_pb2 as csi

pytestmark = pytest.mark.root

WORK = ("CreateVolume", "ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume")
UNDOING = ("NodeUnpublishVolume", "NodeUnstageVolume", "ControllerUnpublishVolume", "DeleteVolume")


@dataclass
class Desk:
    """Where a developer sits: a driver, a state directory, and places to publish at."""

    top: Path
    driver: ThreadDriver
    environment: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.state = self.top / "state"
        self.target = self.top / "here"
        self.environment = {"VOLMGR_CSI_STATE": str(self.state)}

    def run(self, command: str, *words: str) -> Result:
        """Run `volmgr csi COMMAND SOCKET …`."""
        where = [] if command == "ls" else [str(self.driver.socket)]
        return CliRunner().invoke(cli, ["csi", command, *where, *words], env=self.environment)

    def publish(self, *words: str, target: Path | None = None) -> Result:
        """Publish at the usual target."""
        return self.run("publish", *words, "--target", str(target or self.target))

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start it as a process of its own."""
        argv = [sys.executable, "-m", "volmgr.cli", "csi", words[0], str(self.driver.socket), *words[1:]]
        environment = {**os.environ, **self.environment}
        return subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def done(self) -> list[str]:
        """Give the calls that changed something, in order."""
        return [call.method for call in self.driver.calls(*WORK, *UNDOING) if call.code == "OK"]

    def is_clean(self) -> bool:
        """Tell whether nothing is left: no record, no mount, no target."""
        left = list(self.state.iterdir()) if self.state.exists() else []
        return not left and not self.target.exists() and not is_mounted(str(self.target))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with running_fault_driver(tmp_path / "driver") as driver:
        driver.add_volume("disk")
        yield Desk(tmp_path, driver)


@pytest.fixture
def controlled(tmp_path: Path) -> Iterator[Desk]:
    with running_fault_driver(tmp_path / "driver", controller=(*CONTROLLER, ATTACH)) as driver:
        yield Desk(tmp_path, driver)


def test_a_volume_is_staged_and_published_and_all_of_it_taken_back(desk: Desk) -> None:
    result = desk.publish("disk", "--fs-type", "ext4", "--attribute", "kind=fast", "--mount-flag", "noatime")

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.endswith(f"disk is published at {desk.target}\n")
    (published,) = desk.driver.calls("NodePublishVolume")
    staging = published.request["stagingTargetPath"]
    assert Path(staging).is_relative_to(desk.state)
    assert published.request == {
        "volumeId": "disk",
        "stagingTargetPath": staging,
        "targetPath": str(desk.target),
        "volumeContext": {"kind": "fast"},
        "volumeCapability": {
            "mount": {"fsType": "ext4", "mountFlags": ["noatime"]},
            "accessMode": {"mode": "SINGLE_NODE_WRITER"},
        },
    }
    (desk.target / "file").write_text("kept")

    result = desk.run("unpublish", "disk")

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.endswith("nothing is left of disk\n")
    assert desk.done() == ["NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"]
    assert desk.is_clean()
    assert (desk.driver.volumes.directory(desk.driver.volumes.get("disk")) / "file").read_text() == "kept"


def test_taking_back_what_was_never_published_is_success_and_calls_nothing(desk: Desk) -> None:
    result = desk.run("unpublish", "disk")

    assert (result.exit_code, desk.done()) == (0, [])
    assert desk.is_clean()


def test_a_volume_is_made_attached_and_deleted_again(controlled: Desk) -> None:
    result = controlled.publish("scratch", "--create", "4Mi", "--parameter", "kind=fast")

    assert (result.exit_code, result.stderr) == (0, "")
    (made,) = controlled.driver.volumes.all()
    assert (made.name, made.size, made.nodes) == ("scratch", 4 << 20, {"machine-1": False})
    (staged,) = controlled.driver.calls("NodeStageVolume")
    assert staged.request["volumeId"] == made.id
    assert staged.request["volumeContext"] == {"kind": "fast"}
    (volume,) = json.loads(controlled.run("ls", "-o", "json").stdout)["volumes"]
    assert (volume["volume"], volume["volume_id"]) == ("scratch", made.id)

    assert controlled.run("unpublish", "scratch").exit_code == 0

    assert controlled.done() == [*WORK, *UNDOING]
    assert controlled.driver.volumes.all() == []
    assert controlled.is_clean()


def test_a_volume_that_was_made_may_be_kept(controlled: Desk) -> None:
    controlled.publish("scratch", "--create", "4Mi")

    result = controlled.run("unpublish", "scratch", "--keep")

    (kept,) = controlled.driver.volumes.all()
    assert result.exit_code == 0
    assert result.stdout.endswith(f"scratch is published nowhere, and kept: its volume_id is {kept.id}\n")
    assert (kept.name, kept.nodes, controlled.is_clean()) == ("scratch", {}, True)


def test_what_an_attacher_said_takes_the_place_of_attaching(controlled: Desk) -> None:
    controlled.driver.add_volume("disk", nodes={"machine-1": False})

    assert controlled.publish("disk", "--publish-context", "lun=7").exit_code == 0

    assert controlled.done() == ["NodeStageVolume", "NodePublishVolume"]
    (published,) = controlled.driver.calls("NodePublishVolume")
    assert published.request["publishContext"] == {"lun": "7"}
    assert controlled.run("unpublish", "disk").exit_code == 0
    assert controlled.is_clean()


def test_a_node_alone_neither_stages_nor_attaches_and_cannot_create(tmp_path: Path) -> None:
    with running_fault_driver(tmp_path / "driver", node=(STATS,), controller=()) as driver:
        desk = Desk(tmp_path, driver)
        driver.add_volume("disk")
        result = desk.publish("new", "--create", "1Mi")
        assert (result.exit_code, "--controller" in result.stderr) == (1, True)
        assert desk.is_clean()

        assert desk.publish("disk").exit_code == 0
        assert desk.run("unpublish", "disk").exit_code == 0

        assert desk.done() == ["NodePublishVolume", "NodeUnpublishVolume"]
        assert desk.is_clean()


def test_the_controller_may_be_another_process(tmp_path: Path) -> None:
    with (
        running_fault_driver(tmp_path / "node", controller=()) as node,
        running_fault_driver(tmp_path / "driver", controller=EVERYTHING) as controller,
    ):
        node.add_volume("disk", nodes={"machine-1": False})
        controller.add_volume("disk")
        desk = Desk(tmp_path, node)

        assert desk.publish("disk", "--controller", f"unix://{controller.socket}").exit_code == 0
        assert controller.volumes.get("disk").nodes == {"machine-1": False}
        assert desk.run("unpublish", "disk").exit_code == 0

        assert controller.volumes.get("disk").nodes == {}
        assert desk.is_clean()


def test_a_device_is_published_as_a_file(desk: Desk) -> None:
    desk.driver.add_volume("raw", block=True)

    assert desk.publish("raw", "--block").exit_code == 0
    assert stat.S_ISBLK(desk.target.stat().st_mode)
    assert desk.run("unpublish", "raw").exit_code == 0

    assert desk.is_clean()


def test_an_inline_volume_is_only_published(desk: Desk) -> None:
    assert desk.publish("inline", "--ephemeral", "--attribute", "size=1048576").exit_code == 0

    (published,) = desk.driver.calls("NodePublishVolume")
    assert published.request["volumeContext"] == {"csi.storage.k8s.io/ephemeral": "true", "size": "1048576"}
    assert "stagingTargetPath" not in published.request
    assert desk.run("unpublish", "inline").exit_code == 0
    assert desk.done() == ["NodePublishVolume", "NodeUnpublishVolume"]
    assert desk.is_clean()


def test_two_targets_share_what_is_staged_until_the_last_one_goes(desk: Desk) -> None:
    other = desk.top / "there"
    desk.publish("disk")
    assert desk.publish("disk", "--read-only", target=other).exit_code == 0
    (desk.target / "file").write_text("seen")
    assert (other / "file").read_text() == "seen"

    result = desk.run("unpublish", "disk", "--target", str(desk.target))
    assert (result.exit_code, f"disk is still published at {other}" in result.stdout) == (0, True)
    assert (other / "file").exists()
    assert desk.run("unpublish", "disk").exit_code == 0

    assert desk.done() == [
        "NodeStageVolume",
        "NodePublishVolume",
        "NodePublishVolume",
        "NodeUnpublishVolume",
        "NodeUnpublishVolume",
        "NodeUnstageVolume",
    ]
    assert desk.is_clean()


def test_a_second_target_has_to_say_of_the_volume_what_the_first_did(desk: Desk) -> None:
    desk.publish("disk")

    result = desk.publish("disk", "--fs-type", "xfs", "--staging", str(desk.top), target=desk.top / "there")

    assert result.exit_code == 1
    assert "disk of fault.csi.test is there with another fs type, staging" in result.stderr
    assert desk.run("unpublish", "disk").exit_code == 0


def test_a_staging_directory_of_ones_own_and_a_target_that_was_there_stay(desk: Desk) -> None:
    staging = desk.top / "staging"
    for each in (staging, desk.target):
        each.mkdir()

    assert desk.publish("disk", "--staging", str(staging)).exit_code == 0
    assert is_mounted(str(desk.target))
    assert desk.run("unpublish", "disk").exit_code == 0

    assert staging.is_dir()
    assert not is_mounted(str(staging))
    assert not list(desk.state.iterdir())


@pytest.mark.parametrize("method", WORK)
def test_a_call_that_failed_for_good_leaves_what_was_done_before_it(method: str, controlled: Desk) -> None:
    controlled.driver.script(Rule(method=method, code="INVALID_ARGUMENT", message="no such kind"))

    result = controlled.publish("scratch", "--create", "1Mi", "--parameter", "kind=fast")

    assert result.exit_code == 1
    assert f"{method} of csi driver" in result.stderr
    assert "failed: INVALID_ARGUMENT: no such kind; compare --attribute" in result.stderr
    before = list(WORK[: WORK.index(method)])
    assert controlled.done() == before

    assert controlled.run("unpublish", "scratch").exit_code == 0

    assert controlled.done() == [*before, *UNDOING[len(UNDOING) - len(before) :]]
    assert controlled.driver.volumes.all() == []
    assert controlled.is_clean()


@pytest.mark.parametrize("method", WORK)
@pytest.mark.parametrize("code", ["UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED"])
def test_a_call_that_may_have_done_its_work_is_taken_back(method: str, code: str, controlled: Desk) -> None:
    controlled.driver.script(Rule(method=method, code=code, skip_work=False))

    assert controlled.publish("scratch", "--create", "1Mi").exit_code == 1
    assert controlled.run("unpublish", "scratch").exit_code == 0

    assert controlled.driver.volumes.all() == []
    assert controlled.is_clean()


@pytest.mark.parametrize("method", WORK)
def test_a_call_that_may_have_done_its_work_is_called_again(method: str, controlled: Desk) -> None:
    controlled.driver.script(Rule(method=method, code="UNAVAILABLE", skip_work=False))
    assert controlled.publish("scratch", "--create", "1Mi").exit_code == 1

    assert controlled.publish("scratch", "--create", "1Mi").exit_code == 0

    assert controlled.done() == list(WORK)
    assert len(controlled.driver.volumes.all()) == 1
    assert controlled.run("unpublish", "scratch").exit_code == 0
    assert controlled.is_clean()


@pytest.mark.parametrize("method", UNDOING)
def test_taking_back_goes_on_where_it_failed(method: str, controlled: Desk) -> None:
    controlled.publish("scratch", "--create", "1Mi")
    controlled.driver.script(Rule(method=method, code="INTERNAL", message="stuck"))

    result = controlled.run("unpublish", "scratch")
    assert (result.exit_code, "INTERNAL: stuck; look into the driver's log" in result.stderr) == (1, True)
    assert controlled.run("unpublish", "scratch").exit_code == 0

    assert controlled.done() == [*WORK, *UNDOING]
    assert controlled.is_clean()


@pytest.mark.parametrize("method", UNDOING)
def test_what_a_driver_does_not_know_any_more_is_taken_back(method: str, controlled: Desk) -> None:
    controlled.publish("scratch", "--create", "1Mi")
    controlled.driver.script(Rule(method=method, code="NOT_FOUND", skip_work=False))

    assert controlled.run("unpublish", "scratch").exit_code == 0
    assert controlled.is_clean()


@pytest.mark.parametrize("method", [*WORK, *UNDOING])
@pytest.mark.parametrize("is_done", [False, True], ids=["before its work", "after its work"])
def test_a_command_that_is_killed_in_a_call_leaves_nothing_that_is_not_taken_back(
    method: str, is_done: bool, controlled: Desk
) -> None:
    words = ["publish", "scratch", "--create", "1Mi", "--target", str(controlled.target)]
    if method in UNDOING:
        assert controlled.publish("scratch", "--create", "1Mi").exit_code == 0
        words = ["unpublish", "scratch"]
    gate = "killed"
    controlled.driver.script(Rule(method=method, gate_after=gate) if is_done else Rule(method=method, gate_before=gate))
    process = controlled.start(*words)
    controlled.driver.until_reached(gate)
    process.send_signal(signal.SIGKILL)
    process.wait()
    controlled.driver.open(gate)
    controlled.driver.until_called(method)

    result = controlled.run("unpublish", "scratch")

    assert (result.exit_code, result.stderr) == (0, "")
    assert controlled.driver.volumes.all() == []
    assert controlled.is_clean()


def test_two_commands_for_one_volume_wait_for_each_other(desk: Desk) -> None:
    desk.driver.script(Rule(method="NodeStageVolume", gate_before="first"))
    first = desk.start("publish", "disk", "--target", str(desk.target))
    desk.driver.until_reached("first")
    second = desk.start("publish", "disk", "--target", str(desk.top / "there"))
    desk.driver.until_called("GetPluginInfo", times=2)
    desk.driver.open("first")

    assert (first.wait(), second.wait()) == (0, 0)
    assert desk.done() == ["NodeStageVolume", "NodePublishVolume", "NodePublishVolume"]
    assert desk.run("unpublish", "disk").exit_code == 0
    assert desk.is_clean()


def test_after_a_reboot_a_volume_is_staged_again(desk: Desk) -> None:
    desk.publish("disk")
    (record,) = desk.state.glob("*/volume.json")
    said = json.loads(record.read_text())
    record.write_text(json.dumps({**said, "boot_id": "another"}))

    assert desk.publish("disk").exit_code == 0

    assert len(desk.driver.calls("NodeStageVolume")) == 2
    assert desk.run("unpublish", "disk").exit_code == 0
    assert desk.is_clean()


def test_a_driver_that_only_says_that_it_unmounted_is_not_believed(desk: Desk) -> None:
    desk.publish("disk")
    desk.driver.script(Rule(method="NodeUnpublishVolume", skip_work=True))

    result = desk.run("unpublish", "disk")
    assert result.exit_code == 1
    assert f"nothing is published at {desk.target}, but it is still mounted; unmount it" in result.stderr

    assert desk.run("unpublish", "disk").exit_code == 0
    assert desk.is_clean()


def test_a_driver_that_mounts_where_nobody_sees_it_is_told_of(desk: Desk) -> None:
    desk.driver.script(Rule(method="NodePublishVolume", skip_work=True))

    result = desk.publish("disk")

    assert result.exit_code == 1
    assert f"nothing is mounted at {desk.target} as seen from here" in result.stderr
    assert "rshared (Bidirectional)" in result.stderr


def test_a_driver_that_writes_files_without_a_mount_is_believed(tmp_path: Path) -> None:
    with running_fault_driver(tmp_path / "driver", inline="files") as driver:
        result = Desk(tmp_path, driver).publish("inline", "--ephemeral", "--attribute", "size=1048576")
        assert (result.exit_code, result.stderr) == (0, "")


def test_secrets_are_read_from_files_given_to_each_call_and_neither_kept_nor_shown(desk: Desk) -> None:
    secret = desk.top / "password"
    secret.write_text("hunter2")
    desk.driver.script(Rule(method="NodePublishVolume", code="INTERNAL", message="hunter2 is wrong"))
    words = ("disk", "--secret", f"password=@{secret}")

    result = desk.publish(*words)

    assert (result.exit_code, "INTERNAL: *** is wrong" in result.stderr) == (1, True)
    (staged,) = desk.driver.calls("NodeStageVolume")
    assert staged.request["secrets"] == {"password": "hunter2"}
    (record,) = desk.state.glob("*/volume.json")
    assert "hunter2" not in record.read_text()
    shown = desk.publish("disk", "--secret", "password=hunter2")
    assert (shown.exit_code, "hunter2" in shown.stderr) == (2, False)
    assert desk.publish("disk", "--secret", f"password=@{desk.top}/none").exit_code == 2
    assert desk.run("unpublish", "disk").exit_code == 0


def test_a_secret_of_one_letter_leaves_the_words_of_a_failure_alone(desk: Desk) -> None:
    secret = desk.top / "pin"
    secret.write_text("e")
    desk.driver.script(Rule(method="NodePublishVolume", code="INTERNAL", message="pin e is wrong"))

    result = desk.publish("disk", "--secret", f"pin=@{secret}")

    assert f"NodePublishVolume of csi driver {desk.driver.socket} failed: INTERNAL: pin *** is wrong" in result.stderr
    assert desk.run("unpublish", "disk").exit_code == 0


def test_secrets_are_in_no_representation() -> None:
    for kind in (Publication, Steps, Told, Given):
        assert [each.repr for each in fields(kind) if each.name in {"secret", "secrets"}] == [False]


def test_the_list_says_what_is_really_mounted(desk: Desk) -> None:
    assert desk.run("ls").stdout == "nothing is published\n"
    desk.publish("disk")
    assert desk.run("ls").stdout.splitlines()[1].split() == [
        *("fault.csi.test", "disk", "no", "no", "yes", "yes", "yes", str(desk.target)),
    ]
    unmount(str(desk.target))
    (volume,) = json.loads(desk.run("ls", "-o", "json").stdout)["volumes"]
    assert volume["targets"] == [
        {"path": str(desk.target), "read_only": False, "published": "yes", "mounted": False},
    ]
    assert desk.run("unpublish", "disk").exit_code == 0
    assert desk.is_clean()


def test_a_damaged_record_is_named_and_keeps_no_other_volume_from_anything(desk: Desk) -> None:
    desk.driver.add_volume("other")
    desk.publish("disk")
    (record,) = desk.state.glob("*/volume.json")
    good = record.read_bytes()
    record.write_text("{")

    result = desk.run("unpublish", "disk")
    assert (result.exit_code, f"cannot read {record}" in result.stderr) == (1, True)
    assert f"damaged: cannot read {record}" in desk.run("ls").stdout
    (damaged,) = json.loads(desk.run("ls", "-o", "json").stdout)["damaged"]
    assert damaged["record"] == str(record)
    assert desk.publish("other", target=desk.top / "there").exit_code == 0
    assert desk.run("unpublish", "other").exit_code == 0

    record.write_bytes(good)
    assert desk.run("unpublish", "disk").exit_code == 0


def test_a_state_directory_that_cannot_be_used_is_named(desk: Desk) -> None:
    desk.state.write_text("a file")

    result = desk.publish("disk")

    assert result.exit_code == 1
    assert "volmgr: cannot " in result.stderr
    assert str(desk.state) in result.stderr
    assert desk.done() == []


def test_a_target_with_data_beside_the_volume_stays(desk: Desk) -> None:
    for method in ("NodePublishVolume", "NodeUnpublishVolume"):
        desk.driver.script(Rule(method=method, skip_work=True))
    assert desk.publish("disk").exit_code == 1, "what the driver says is published is not seen"
    desk.target.mkdir()
    (desk.target / "mine").write_text("kept")

    assert desk.run("unpublish", "disk").exit_code == 0

    assert (desk.target / "mine").read_text() == "kept"


def test_the_driver_says_how_full_a_volume_is(desk: Desk) -> None:
    assert desk.run("stats", "disk").exit_code == 1
    assert "--path" in desk.run("stats", "disk").stderr
    desk.driver.add_volume("fast", medium="memory", size=4 << 20)
    desk.publish("fast")
    (desk.target / "file").write_bytes(bytes(1 << 20))

    usage = json.loads(desk.run("stats", "fast", "-o", "json").stdout)["usage"]

    sizes = next(each for each in usage if each["unit"] == "bytes")
    assert (sizes["total"], sizes["used"]) == (4 << 20, 1 << 20)
    text = desk.run("stats", "fast", "--path", str(desk.target)).stdout
    assert text.splitlines()[0].split() == ["UNIT", "TOTAL", "USED", "AVAILABLE"]
    assert str(4 << 20) in text
    assert desk.run("unpublish", "fast").exit_code == 0


def test_a_driver_says_what_it_is(tmp_path: Path) -> None:
    topology = {"zone": "a"}
    with running_fault_driver(tmp_path, controller=EVERYTHING, topology=topology, max_volumes=9) as driver:
        desk = Desk(tmp_path, driver)
        said = json.loads(desk.run("info", "-o", "json").stdout)
        text = desk.run("info").stdout

    assert (said["name"], said["ready"], said["problems"]) == ("fault.csi.test", True, [])
    assert said["node_info"] == {"node_id": "machine-1", "max_volumes": 9, "topology": topology}
    assert set(said["controller"]) == set(EVERYTHING)
    assert "STAGE_UNSTAGE_VOLUME" in said["node"]
    assert {"CONTROLLER_SERVICE", "VOLUME_ACCESSIBILITY_CONSTRAINTS"} <= set(said["plugin"])
    for part in ("fault.csi.test", "machine-1", "at most 9", "zone=a", "STAGE_UNSTAGE_VOLUME"):
        assert part in text


def test_a_driver_that_is_not_ready_says_so_and_the_rest_is_shown(desk: Desk) -> None:
    desk.driver.script(Rule(method="Probe", code="FAILED_PRECONDITION", message="no backend"))

    result = desk.run("info")

    assert result.exit_code == 1
    assert "Probe of csi driver" in result.stderr
    assert "no backend" in result.stderr
    assert "machine-1" in result.stdout


def test_what_a_socket_does_not_serve_is_no_failure(desk: Desk) -> None:
    for method in ("NodeGetInfo", "NodeGetCapabilities"):
        desk.driver.script(Rule(method=method, code="UNIMPLEMENTED"))

    result = desk.run("info")

    assert (result.exit_code, result.stderr) == (0, "")
    assert "this node   -" in result.stdout


def test_a_socket_at_which_nobody_listens_is_told_from_one_that_is_not_there(tmp_path: Path) -> None:
    left, file = tmp_path / "left.sock", tmp_path / "file"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(left))
    file.touch()
    for path, reason in (
        (left, "Connection refused; the socket is of a driver that has ended; start it"),
        (file, "Connection refused; the socket is of a driver that has ended; start it"),
        (tmp_path / "none.sock", "No such file or directory; start the driver"),
        (tmp_path / ("long" * 40), "No such file or directory; start the driver"),
    ):
        result = CliRunner().invoke(cli, ["csi", "info", str(path)])
        assert result.exit_code == 3
        assert f"no driver answers on {path}: " in result.stderr
        assert reason in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("info", "tcp://127.0.0.1:9000"),
        ("info",),
        ("publish", "SOCKET", "disk"),
        ("publish", "SOCKET", "disk", "--target", "/nowhere/at/all"),
        ("publish", "SOCKET", "disk", "--target", "/mnt", "--staging", "/nowhere"),
        ("publish", "SOCKET", "disk", "--target", "/mnt", "--access-mode", "ReadWriteOnce"),
        ("publish", "SOCKET", "disk", "--target", "/mnt", "--create", "much"),
        ("publish", "SOCKET", "disk", "--target", "/mnt", "--create", "0"),
        ("publish", "SOCKET", "disk", "--target", "/mnt", "--attribute", "size"),
        ("publish", "SOCKET", "disk", "--target", "/mnt", "--parameter", "size=1"),
        ("publish", "SOCKET", "disk", "--target", "/mnt", "--ephemeral", "--block"),
    ],
)
def test_wrong_usage_exits_with_2_and_calls_nobody(words: tuple[str, ...], desk: Desk) -> None:
    said = [str(desk.driver.socket) if word == "SOCKET" else word for word in words]

    result = CliRunner().invoke(cli, ["csi", *said], env=desk.environment)

    assert result.exit_code == 2
    assert desk.driver.calls() == []


def test_the_access_modes_are_those_of_csi() -> None:
    assert tuple(csi.VolumeCapability.AccessMode.Mode.keys())[1:] == ACCESS_MODES


def test_the_list_of_all_commands_has_the_first_line_of_its_help() -> None:
    package, summary = OURS["csi"]

    assert package == "volmgr-csi"
    assert f"  csi      {summary}\n" in CliRunner().invoke(cli, ["--help"]).output
    assert summary in CliRunner().invoke(cli, ["csi", "--help"]).output


def test_help_needs_neither_grpc_nor_protobuf() -> None:
    program = (
        "import sys\nfrom volmgr.cli.app import cli\n"
        "for words in (['csi', '--help'], ['csi', 'publish', '--help']): cli(words, standalone_mode=False)\n"
        "print(*sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert {"grpc", "google.protobuf"}.isdisjoint(output.splitlines()[-1].split())
