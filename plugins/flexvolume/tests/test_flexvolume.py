"""A driver as a volume type, on a host in memory: what it is asked, and what is done where it supports nothing."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volmgr.plugin import (
    Applies,
    Attachable,
    CommandResult,
    DeviceMountable,
    Expandable,
    FlexVolumeSource,
    Measurable,
    ObjectMeta,
    OperationError,
    PluginError,
    Secret,
    SecretReference,
    TransientError,
    UncertainError,
)
from volmgr.plugins import Plugins
from volmgr.testing import FakeHost, FaultHost, Volume
from volmgr.volume_type import Origin
from volmgr_flexvolume.driver import MASK, Driver
from volmgr_flexvolume.protocol import Capabilities
from volmgr_flexvolume.volume import FlexVolume, volume_type

NAME = "example.com/disk"
EXECUTABLE = Path("/flex/example.com~disk/disk")
UNSUPPORTED = '{"status": "Not supported"}'
SUCCESS = '{"status": "Success"}'

Act = Callable[[list[str]], str]


@dataclass
class Program:
    """A driver in memory: what it was asked, and what it does for each command; the others it does not support."""

    host: FakeHost
    commands: dict[str, Act] = field(default_factory=dict[str, Act])
    asked: list[list[str]] = field(default_factory=list[list[str]])
    exit_code: int = 0
    stderr: str = ""

    def __post_init__(self) -> None:
        self.host.programs[str(EXECUTABLE)] = self

    def __call__(self, argv: tuple[str, ...], _stdin: bytes) -> CommandResult:
        command, *arguments = argv[1:]
        self.asked.append([command, *arguments])
        act = self.commands.get(command)
        return CommandResult(self.exit_code, act(arguments) if act else UNSUPPORTED, self.stderr)

    @property
    def names(self) -> list[str]:
        return [call[0] for call in self.asked]


def says(text: str) -> Act:
    return lambda _arguments: text


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
def program(host: FakeHost) -> Program:
    return Program(host)


def driver(**capabilities: bool) -> FlexVolume:
    return volume_type(Driver(NAME, EXECUTABLE), Capabilities(**capabilities))


def volume(plugin: FlexVolume, **source: object) -> Volume:
    return Volume(plugin, FlexVolumeSource(driver=NAME, **source))  # type: ignore[arg-type]


def mounts_tmpfs(host: FakeHost) -> Act:
    def mount(arguments: list[str]) -> str:
        host.mounts.ensure_mounted(Path(arguments[0]), "tmpfs")
        return SUCCESS

    return mount


def unmounts(host: FakeHost) -> Act:
    def unmount(arguments: list[str]) -> str:
        host.mounts.unmount(Path(arguments[0]))
        return SUCCESS

    return unmount


def disk(host: FakeHost) -> str:
    """Give an empty disk on a loop device."""
    host.put("/srv/disk.img", bytes(2 << 20))
    return str(host.block.attach_loop(Path("/srv/disk.img")))


def test_capabilities_decide_what_a_driver_can_do() -> None:
    plain, attachable = driver(attach=False), driver()
    measured = driver(attach=False, supports_metrics=True)
    assert not isinstance(plain, (Attachable, DeviceMountable, Measurable))
    assert isinstance(attachable, Attachable)
    assert isinstance(attachable, DeviceMountable)
    assert isinstance(measured, Measurable)
    assert isinstance(driver(supports_metrics=True), Measurable)
    assert isinstance(plain, Expandable)
    assert not volume(plain).facets.attach
    assert volume(attachable).facets.attach
    assert volume(attachable).facets.device
    assert volume(plain).facets.fs_group is Applies.CORE
    assert volume(driver(fs_group=False)).facets.fs_group is Applies.NOBODY
    assert not volume(driver(selinux_relabel=False)).facets.relabel


def test_each_driver_is_a_type_of_its_own() -> None:
    plugins = Plugins()
    for name in ("example.com/a", "example.com/b"):
        plugins.add(volume_type(Driver(name, Path("/x")), Capabilities()), Origin("volmgr-flexvolume", "0", "it"))
    assert plugins.find("flexVolume", "example.com/a").name == "example.com/a"
    assert plugins.find("flexVolume", "example.com/b").source_of("flexVolume", "example.com/b") is FlexVolumeSource
    with pytest.raises(PluginError, match="not a qualified name"):
        plugins.add(volume_type(Driver("a b", Path("/x")), Capabilities()), Origin("volmgr-flexvolume", "0", "it"))


def test_everything_lies_where_kubelet_has_it(host: FakeHost) -> None:
    one = volume(driver())
    assert one.target(host) == host.paths.root / "pods/uid-web/volumes/example.com~disk/data"
    assert one.device_target(host) == host.paths.root / "plugins/kubernetes.io/flexvolume/example.com/disk/mounts/data"
    assert one.unique_name == "example.com/disk/data"
    assert volume(driver(attach=False)).unique_name == "example.com/disk/uid-web-data"


def test_a_plain_driver_is_asked_to_mount_and_to_unmount(host: FakeHost, program: Program) -> None:
    program.commands["mount"] = mounts_tmpfs(host)
    one = volume(driver(attach=False), options={"size": "1g"})
    one.mount(host)
    assert host.table[one.target(host)].startswith("tmpfs")
    one.mount(host)
    assert program.names == ["mount"]
    assert program.asked[0][1] == str(one.target(host))
    assert json.loads(program.asked[0][2])["size"] == "1g"
    program.commands["unmount"] = unmounts(host)
    one.unmount(host)
    assert program.asked[1] == ["unmount", str(one.target(host))]
    assert host.files.info(one.target(host)) is None


def test_what_a_mount_leaves_running_outlives_the_daemons_service(host: FakeHost, program: Program) -> None:  # I82
    program.commands |= {"mount": mounts_tmpfs(host), "unmount": unmounts(host)}
    watching = FaultHost(host)
    one = volume(driver(attach=False))
    one.mount(watching)
    one.unmount(watching)
    scoped = [call.args[0] for call in watching.trace if call.verb == "commands.lasting"]
    assert [argv[:2] for argv in scoped if isinstance(argv, tuple)] == [(str(EXECUTABLE), "mount")]


def test_a_mount_that_is_not_supported_is_a_bind_of_the_nodes_mount_and_asked_for_once(
    host: FakeHost, program: Program
) -> None:
    device = disk(host)
    program.commands["attach"] = says(f'{{"status": "Success", "device": "{device}"}}')
    plugin = driver()
    for name in ("web", "other"):
        one = replace(volume(plugin), pod=replace(volume(plugin).pod, metadata=ObjectMeta(name=name, uid=name)))
        ready = one.set_up(host)
        ready.mount(host)
        assert host.table[one.target(host)].startswith("ext4")
    assert program.names.count("mount") == 1
    assert program.names.count("mountdevice") == 1
    assert program.names.count("attach") == 2


def test_another_object_of_the_driver_asks_again(host: FakeHost, program: Program) -> None:
    for _ in range(2):
        with pytest.raises(OperationError, match="nothing is mounted on the node that could be bound"):
            volume(driver(attach=False)).mount(host)
    assert program.names == ["mount", "mount"]


def test_what_is_not_supported_is_remembered_from_any_thread(host: FakeHost, program: Program) -> None:
    one = Driver(NAME, EXECUTABLE)
    assert one.ask(host, "detach", "v", deadline=1) is None
    answers: list[object] = []
    threads = [
        threading.Thread(target=lambda: answers.append(one.ask(host, "detach", "v", deadline=1))) for _ in "1234"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [None] * 4
    assert program.names == ["detach"]


def test_a_disk_goes_the_whole_way_by_what_kubelet_does_where_nothing_is_supported(
    host: FakeHost, program: Program
) -> None:
    device = disk(host)
    program.commands["attach"] = says(f'{{"status": "Success", "device": "{device}"}}')
    before = host.table
    ready = volume(driver(), fs_type="xfs").set_up(host)
    assert ready.device_path == device
    target = ready.device_target(host)
    assert target is not None
    assert host.table[target].startswith("xfs")
    ready.mount(host, read_only=True)
    assert host.table[ready.target(host)].endswith("ro")
    ready.unmount(host)
    ready.unmount_device(host)
    ready.detach(host)
    assert host.table == before
    assert host.files.info(target) is None
    assert program.names == [
        *("getvolumename", "attach", "waitforattach", "mountdevice", "mount", "unmount", "unmountdevice", "detach"),
    ]
    assert program.asked[-1] == ["detach", "data", ""]


def test_a_driver_that_supports_everything_is_asked_in_the_words_of_the_protocol(
    host: FakeHost, program: Program
) -> None:
    device = disk(host)
    program.commands |= {
        "getvolumename": says('{"status": "Success", "volumeName": "mine"}'),
        "attach": says('{"status": "Success", "device": "/dev/early"}'),
        "waitforattach": says(f'{{"status": "Success", "device": "{device}"}}'),
        "mountdevice": mounts_tmpfs(host),
        "mount": mounts_tmpfs(host),
        "expandvolume": says('{"status": "Success", "volumeNewSize": 4096}'),
        "expandfs": says(SUCCESS),
    }
    ready = volume(driver()).set_up(host)
    ready.mount(host)
    assert ready.expand(host, old_size=1024, new_size=4000).size == 4096
    target, node = ready.target(host), ready.device_target(host)
    options = program.asked[0][1]
    assert json.loads(options)["kubernetes.io/pvOrVolumeName"] == "data"
    assert program.asked[:4] == [
        ["getvolumename", options],
        ["attach", options, ""],
        ["waitforattach", "/dev/early", options],
        ["mountdevice", str(node), device, options],
    ]
    assert program.asked[4][:2] == ["mount", str(target)]
    assert program.asked[5:] == [
        ["expandvolume", options, device, "4000", "1024"],
        ["expandfs", options, device, str(node), "4000", "1024"],
    ]
    assert ready.unique_name == "example.com/disk/data"


def test_a_driver_that_resizes_by_itself_is_not_asked_for_the_file_system(host: FakeHost, program: Program) -> None:
    one = volume(driver(attach=False, requires_fs_resize=False))
    assert one.expand(host, new_size=4096).size == 4096
    assert program.names == ["expandvolume"]


def test_a_device_that_does_not_appear_is_named_with_what_the_driver_thinks(host: FakeHost, program: Program) -> None:
    program.commands["attach"] = says('{"status": "Success", "device": "/dev/gone"}')
    with pytest.raises(OperationError, match=r"/dev/gone of volume data is not there; driver .* cannot say"):
        volume(driver()).attach(host)
    program.commands["isattached"] = says('{"status": "Success", "attached": false}')
    with pytest.raises(OperationError, match=r"driver example\.com/disk says that it is not attached"):
        volume(driver()).attach(host)


def test_a_failure_is_told_and_leaves_nothing(host: FakeHost, program: Program) -> None:
    program.commands["mount"] = says('{"status": "Failure", "message": "no such export"}')
    one = volume(driver(attach=False))
    with pytest.raises(OperationError, match=r"mount of driver example\.com/disk failed: 'Failure: no such export'"):
        one.mount(host)
    assert host.files.info(one.target(host)) is None


def test_a_failure_that_left_something_is_uncertain(host: FakeHost, program: Program) -> None:
    mount = mounts_tmpfs(host)
    program.commands["mount"] = lambda arguments: mount(arguments) and '{"status": "Failure"}'
    with pytest.raises(UncertainError, match="is mounted or has something in it, although mounting failed"):
        volume(driver(attach=False)).mount(host)


def test_success_with_an_exit_code_is_a_bug_of_the_driver(host: FakeHost, program: Program) -> None:
    program.commands["mount"] = says(SUCCESS)
    program.exit_code = 3
    with pytest.raises(UncertainError, match="said Success and exited with 3, which is a bug of the driver"):
        volume(driver(attach=False)).mount(host)


@pytest.mark.parametrize("code", [0, 1, 127, -9])
def test_not_supported_counts_whatever_the_exit_code(host: FakeHost, program: Program, code: int) -> None:
    program.exit_code = code
    assert Driver(NAME, EXECUTABLE).ask(host, "expandfs", deadline=1) is None


def test_no_answer_is_uncertain_and_quoted_in_short(host: FakeHost, program: Program) -> None:
    program.commands["mount"] = says("x" * 60_000)
    with pytest.raises(
        UncertainError, match=r"exited with 0, and its answer is no JSON; correct the driver: 'xxx"
    ) as e:
        volume(driver(attach=False)).mount(host)
    assert len(str(e.value)) < 500


def test_an_answer_on_standard_error_counts_where_there_is_no_other(host: FakeHost, program: Program) -> None:
    program.commands["detach"] = says("")
    program.stderr = SUCCESS
    assert Driver(NAME, EXECUTABLE).ask(host, "detach", "v", deadline=1) is not None
    program.commands["detach"] = says(SUCCESS)
    program.stderr = "warning: old firmware"
    assert Driver(NAME, EXECUTABLE).ask(host, "detach", "v", deadline=1) is not None


def test_a_driver_that_does_not_support_init_is_none(host: FakeHost, program: Program) -> None:
    with pytest.raises(OperationError, match="which every driver must support"):
        Driver(NAME, EXECUTABLE).initialize(host, 1)
    program.commands["init"] = says('{"status": "Success", "capabilities": {"attach": false}}')
    assert Driver(NAME, EXECUTABLE).initialize(host, 1) == Driver(NAME, EXECUTABLE).initialize(host, 1)


# Secrets


def with_secret(plugin: FlexVolume, secret: Secret) -> Volume:
    one = volume(plugin, secret_ref=SecretReference(name="login"))
    ref = plugin.references(one.spec, one.pod)[0].ref
    return replace(one, objects={ref: secret})


def login(value: bytes = b"hunter2-horse", of: str = NAME) -> Secret:
    return Secret(metadata=ObjectMeta(name="login"), type=of, data={"password": value})


def test_a_secret_is_given_to_mount_alone_in_base64(host: FakeHost, program: Program) -> None:
    device = disk(host)
    program.commands["attach"] = says(f'{{"status": "Success", "device": "{device}"}}')
    ready = with_secret(driver(), login()).set_up(host)
    ready.mount(host)
    given = {call[0]: call[1:] for call in program.asked if "aHVudGVyMi1ob3JzZQ==" in str(call)}
    assert list(given) == ["mount"]
    assert json.loads(given["mount"][1])["kubernetes.io/secret/password"] == "aHVudGVyMi1ob3JzZQ=="


def test_a_secret_of_another_type_is_refused_before_anything_is_made(host: FakeHost, program: Program) -> None:
    one = with_secret(driver(attach=False), login(of="Opaque"))
    with pytest.raises(OperationError, match=r"make it anew with type: example\.com/disk"):
        one.mount(host)
    assert program.asked == []
    assert host.files.info(one.target(host)) is None


@pytest.mark.parametrize(
    "answer",
    [
        '{"status": "Failure", "message": "bad login hunter2-horse / aHVudGVyMi1ob3JzZQ=="}',
        '{"status": "hunter2-horse", "message": ""}',
        "password=hunter2-horse aHVudGVyMi1ob3JzZQ==",
        "",
    ],
)
def test_no_message_shows_a_secret(host: FakeHost, program: Program, answer: str) -> None:
    program.commands["mount"] = says(answer)
    program.stderr = "the driver was called with aHVudGVyMi1ob3JzZQ== (hunter2-horse)"
    with pytest.raises((OperationError, UncertainError)) as error:
        with_secret(driver(attach=False), login()).mount(host)
    chain: list[BaseException | None] = [error.value, error.value.__cause__]
    text = "".join(f"{each} {each!r}" for each in chain)
    assert "hunter2" not in text
    assert "aHVudGVyMi1ob3JzZQ" not in text
    assert MASK in text


def test_a_helper_that_was_killed_shows_no_secret(host: FakeHost, program: Program) -> None:
    def killed(_arguments: list[str]) -> str:
        message = "disk mount did not end before its deadline and was killed: login hunter2-horse refused"
        raise UncertainError(message)

    program.commands["mount"] = killed
    with pytest.raises(UncertainError) as error:
        with_secret(driver(attach=False), login()).mount(host)
    assert "hunter2" not in str(error.value)
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__


# A driver that has vanished


def test_what_a_vanished_driver_did_not_support_is_still_done(host: FakeHost, program: Program) -> None:
    device = disk(host)
    program.commands["attach"] = says(f'{{"status": "Success", "device": "{device}"}}')
    plugin = driver()
    first = volume(plugin).set_up(host)
    first.mount(host)
    first.unmount(host)
    first.mount(host)
    del host.programs[str(EXECUTABLE)]
    first.unmount(host)
    assert host.files.info(first.target(host)) is None


def test_what_a_vanished_driver_did_itself_waits_for_it(host: FakeHost, program: Program) -> None:
    program.commands["mount"] = mounts_tmpfs(host)
    one = volume(driver(attach=False))
    one.mount(host)
    del host.programs[str(EXECUTABLE)]
    with pytest.raises(TransientError, match=r"cannot unmount: driver example\.com/disk is gone") as error:
        one.unmount(host)
    assert error.value.waits_for == NAME
    assert host.table[one.target(host)].startswith("tmpfs")
    host.programs[str(EXECUTABLE)] = program
    one.unmount(host)
    assert host.files.info(one.target(host)) is None


# Liars


def test_a_mount_that_is_none_is_said_to_the_pods_owner(host: FakeHost, program: Program) -> None:
    program.commands["mount"] = says(SUCCESS)
    notices = volume(driver(attach=False)).mount(host).notices
    assert [notice.reason for notice in notices] == ["NothingMounted"]


def test_an_unmount_that_is_none_is_an_error_and_nothing_is_removed(host: FakeHost, program: Program) -> None:
    program.commands |= {"mount": mounts_tmpfs(host), "unmount": says(SUCCESS)}
    one = volume(driver(attach=False))
    one.mount(host)
    host.put(one.target(host) / "file", b"data")
    with pytest.raises(OperationError, match=r"said that unmount was done, and .* is still mounted"):
        one.unmount(host)
    assert host.content(one.target(host) / "file") == b"data"


def test_what_was_written_where_nothing_was_mounted_is_kept(host: FakeHost, program: Program) -> None:
    program.commands |= {"mount": says(SUCCESS), "unmount": says(SUCCESS)}
    one = volume(driver(attach=False))
    one.mount(host)
    host.put(one.target(host) / "file", b"data")
    with pytest.raises(OperationError, match="yet there is something in it: it is kept"):
        one.unmount(host)
    assert host.content(one.target(host) / "file") == b"data"


@given(name=st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?", fullmatch=True), attach=st.booleans())
def test_a_volume_s_identity_survives_its_directory(name: str, attach: bool) -> None:
    host = FakeHost()
    one = replace(volume(driver(attach=attach), options={"size": "1"}), name=name)
    rebuilt = one.reconstruct(host).spec
    assert (rebuilt.name, rebuilt.source.driver) == (name, NAME)
    assert one.name_of(rebuilt) == one.unique_name
    assert replace(one, source=rebuilt.source).device_target(host) == one.device_target(host)
