"""iscsi on a host in memory: what is asked of open-iscsi, in which order, and what is left."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from plugins.iscsi.tests.iscsi_site import DATABASE, IQN, Site

from volmgr.plugin import (
    CommandResult,
    ObjectMeta,
    OperationError,
    PersistentVolume,
    Reference,
    Secret,
    SecretReference,
    TransientError,
    UnansweredError,
    UncertainError,
    VolumeMode,
)
from volmgr.testing import Fault, FaultHost, Volume, pod
from volmgr_iscsi.plugin import Iscsi
from volmgr_iscsi.source import IscsiSource

SECRET = {
    "discovery.sendtargets.auth.username": b"asker",
    "discovery.sendtargets.auth.password": b"asks12345678",
    "node.session.auth.username": b"user1",
    "node.session.auth.password": b"secret12345678",
    "node.session.auth.username_in": b"mutual-user",
    "node.session.auth.password_in": b"tsecret1234567",
}


@pytest.fixture
def site() -> Site:
    return Site()


def volume(*portals: str, name: str = "data", lun: int = 0, iqn: str = IQN, **fields: object) -> Volume:
    first, *others = portals or ("10.0.0.1",)
    source = IscsiSource(target_portal=first, portals=tuple(others), iqn=iqn, lun=lun)
    spec = fields.pop("spec", {})
    return Volume(Iscsi(), replace(source, **fields), name=name, spec_fields=spec)  # type: ignore[arg-type]


def with_secret(of: Volume, data: dict[str, bytes] | None = None) -> Volume:
    secret = Secret(metadata=ObjectMeta(name="chap"), data=SECRET if data is None else data)
    return replace(of, objects={each.ref: secret for each in of.plugin.references(of.spec, of.pod)})


# Connecting


def test_a_lun_is_connected_by_three_commands_and_given_back_by_two(site: Site) -> None:
    ready = volume().set_up(site.host)
    assert site.commands() == [
        "-m discovery -t sendtargets -p 10.0.0.1:3260 -I default -o nonpersistent",
        f"-m node -T {IQN} -p 10.0.0.1:3260,1 -I default -o new",
        f"-m node -T {IQN} -p 10.0.0.1:3260 -I default --login",
    ]
    assert ready.device_path == "/dev/sdb"
    ready.mount(site.host)
    ready.unmount(site.host)
    ready.unmount_device(site.host)
    assert site.commands() == [
        "-m session -r 1 --logout",
        f"-m node -T {IQN} -p 10.0.0.1:3260 -I default -o delete",
    ]
    assert site.is_clean
    assert site.host.table == {}


def test_the_kernel_is_asked_for_one_lun_alone(site: Site) -> None:
    site.initiator.map(site.target, 1, "36001405bb")
    volume().set_up(site.host)
    assert [disk.address.lun for disk in site.host.storage.known] == [0]
    (record,) = site.records()
    assert b"node.session.scan = manual" in site.host.content(DATABASE / record)


def test_how_it_is_connected_lies_beside_its_mount_before_that_hides_it(site: Site) -> None:
    ready = volume()
    faulty = FaultHost(site.host, [Fault(1, UncertainError("deadline"), verb="mounts.ensure_mounted")])
    with pytest.raises(UncertainError):
        ready.mount_device(faulty)
    target = ready.device_target(site.host)
    assert target is not None
    assert site.host.content(target / "iscsi.json").startswith(b'{"VolName":"data","Portals":["10.0.0.1:3260"],')
    ready.unmount_device(site.host)
    assert site.host.files.info(target) is None
    assert site.is_clean


def test_a_second_lun_of_a_target_uses_its_session(site: Site) -> None:
    site.initiator.map(site.target, 1, "36001405bb")
    first, second = volume(name="a").set_up(site.host), volume(name="b", lun=1)
    site.commands()
    second = second.set_up(site.host)
    assert site.commands() == []
    first.unmount_device(site.host)
    assert site.commands() == []
    second.unmount_device(site.host)
    assert site.is_clean


def test_a_target_whose_name_begins_like_another_s_is_another(site: Site) -> None:
    longer = site.initiator.target(f"{IQN}0", "10.0.0.1")
    site.initiator.map(longer, 0, "36001405bb")
    first, second = volume().set_up(site.host), volume(iqn=f"{IQN}0").set_up(site.host)
    first.unmount_device(site.host)
    assert [each.target.iqn for each in site.initiator.sessions.values()] == [f"{IQN}0"]
    second.unmount_device(site.host)
    assert site.is_clean


def somebody_logs_in(site: Site, portal: str = "10.0.0.1:3260") -> None:
    """Let a session be there that no volume asked for."""
    for words in (f"-p {portal},1 -I default -o new", f"-p {portal} -I default --login"):
        site.initiator.program(("iscsiadm", "-m", "node", "-T", IQN, *words.split()), b"")
    site.commands()


def test_a_session_of_somebody_else_is_used_and_left_alone(site: Site) -> None:
    somebody_logs_in(site)
    ready = volume().set_up(site.host)
    ready.unmount_device(site.host)
    assert site.commands() == []
    assert list(site.initiator.sessions) == [1]
    assert site.host.storage.known == ()


def test_what_somebody_else_had_before_a_reboot_is_ours_when_we_make_it_anew(site: Site) -> None:
    somebody_logs_in(site)
    ready = volume().set_up(site.host)
    site.host.reboot()
    site.initiator.end(1)
    ready.set_up(site.host)
    ready.unmount_device(site.host)
    assert site.is_clean


def test_a_session_that_somebody_has_since_a_reboot_outlives_a_volume_of_before(site: Site) -> None:
    ready = volume().set_up(site.host)
    site.host.reboot()
    site.initiator.end(1)
    somebody_logs_in(site)
    ready.unmount_device(site.host)
    assert list(site.initiator.sessions) == [1]
    assert len(site.records()) == 1


def test_a_session_of_somebody_else_at_a_portal_that_no_volume_had_is_left_alone(site: Site) -> None:
    site.initiator.map(site.target, 1, "36001405bb")
    first = volume(name="a").set_up(site.host)
    somebody_logs_in(site, "10.0.0.2:3260")
    second = volume("10.0.0.1", "10.0.0.2", name="b", lun=1).set_up(site.host)
    for each in (second, first):
        each.unmount_device(site.host)
    assert [str(each.portal) for each in site.initiator.sessions.values()] == ["10.0.0.2:3260"]


def test_a_session_with_the_volume_s_own_disk_in_somebody_s_hands_is_kept(site: Site) -> None:
    ready = volume().set_up(site.host)
    shared = ready.device_target(site.host)
    assert shared is not None
    site.host.files.remove_tree(site.host.paths.state / "iscsi/disks")  # as a kubelet leaves it
    site.host.mounts.unmount(shared)
    site.host.busy[Path("/dev/sdb")] = ("database",)
    ready.unmount_device(site.host)
    assert list(site.initiator.sessions) == [1]


@pytest.mark.parametrize("same_target", [True, False])
def test_other_volumes_make_a_mount_ask_little_more(site: Site, same_target: bool) -> None:
    def calls() -> int:
        faulty = FaultHost(site.host)
        volume().set_up(faulty).unmount_device(faulty)
        return len(faulty.trace)

    before, others = calls(), 20
    for number in range(1, 1 + others):
        target = site.target if same_target else site.initiator.target(f"{IQN}-{number}", "10.0.0.1")
        site.initiator.map(target, number, f"36001405{number:04}")
        volume(iqn=target.iqn, lun=number).set_up(site.host)
    assert (calls() - before) / others < 25


def test_a_session_with_a_disk_that_does_not_answer_is_kept(site: Site) -> None:
    site.initiator.map(site.target, 7, "36001405bb")
    ready = volume().set_up(site.host)
    shared = ready.device_target(site.host)
    assert shared is not None
    site.host.scsi.scan(2, lun=7)
    site.host.mounts.unmount(shared)
    site.host.scsi.remove(site.host.storage.known[0])
    site.host.storage.cut(2)
    ready.unmount_device(site.host)
    assert list(site.initiator.sessions) == [1]


def test_a_session_with_another_disk_in_use_is_kept(site: Site) -> None:
    site.initiator.map(site.target, 7, "36001405bb")
    ready = volume().set_up(site.host)
    site.host.scsi.scan(2, lun=7)
    site.host.busy[Path("/dev/sdc")] = ("database",)
    ready.unmount_device(site.host)
    assert list(site.initiator.sessions) == [1]
    assert [disk.name for disk in site.host.storage.known] == ["sdc"]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (("--login", 24), "does not let this node in"),
        (("--login", 20), "iscsid does not run"),
        (("-m discovery ", 11), "did not answer in time"),
        (("-o new", 6), "recording .* exited with 6"),
    ],
)
def test_what_open_iscsi_refuses_is_told_and_leaves_nothing(site: Site, answer: tuple[str, int], says: str) -> None:
    word, exit_code = answer
    site.initiator.answers = lambda command: exit_code if word in command else 0
    with pytest.raises(OperationError, match=says):
        volume().mount_device(site.host)
    assert site.is_clean
    assert site.host.table == {}


def test_a_target_that_is_not_offered_is_named_with_those_that_are(site: Site) -> None:
    with pytest.raises(
        OperationError, match=rf"does not offer the target iqn\.2026-01\.io\.test:other; it offers {IQN}"
    ):
        volume(iqn="iqn.2026-01.io.test:other").mount_device(site.host)


def test_a_lun_that_is_not_there_is_named(site: Site) -> None:
    with pytest.raises(OperationError, match=f"the target {IQN} shows this node no LUN 9"):
        volume(lun=9).mount_device(site.host)
    assert site.is_clean


# CHAP (scenario 116)


def test_secrets_are_in_no_command_and_in_files_of_root_alone(site: Site) -> None:
    site.target.session_chap = {key: text.decode() for key, text in SECRET.items() if key.startswith("node.")}
    site.target.discovery_chap = {key: text.decode() for key, text in SECRET.items() if key.startswith("discovery.")}
    proved = with_secret(
        volume(chap_auth_session=True, chap_auth_discovery=True, secret_ref=SecretReference(name="chap"))
    )
    ready = proved.set_up(site.host)
    said = " ".join(site.commands())
    assert not any(text.decode() in said for text in SECRET.values())
    (record,) = site.records()
    info = site.host.files.info(DATABASE / record)
    assert info is not None
    assert (info.mode, info.uid) == (0o600, 0)
    assert b"node.session.auth.authmethod = CHAP" in site.host.content(DATABASE / record)
    assert not [path for path, what in site.host.tree(site.host.paths.root).items() if "secret12345678" in what]
    ready.unmount_device(site.host)
    assert site.is_clean


def test_a_portal_s_record_of_somebody_else_is_what_it_was_after_it_was_asked(site: Site) -> None:
    record = DATABASE / "send_targets/10.0.0.1,3260/st_config"
    site.host.mkdir(record.parent)
    site.host.put(record, b"discovery.startup = manual\n", 0o600)
    with_secret(volume(chap_auth_discovery=True, secret_ref=SecretReference(name="chap"))).set_up(site.host)
    assert site.host.content(record) == b"discovery.startup = manual\n"


class Killed(BaseException):
    """What ends a daemon in a test, wherever it is."""


@pytest.mark.parametrize("at", ["-o new", "--discover"])
@pytest.mark.parametrize("goes_on", [True, False])
def test_a_daemon_that_is_killed_while_it_asks_leaves_no_secret(site: Site, at: str, goes_on: bool) -> None:
    def killed(command: str) -> int:
        if "discoverydb" in command and at in command:
            raise Killed
        return 0

    asking = with_secret(volume(chap_auth_discovery=True, secret_ref=SecretReference(name="chap")))
    site.initiator.answers = killed
    with pytest.raises(Killed):
        asking.mount_device(site.host)
    site.initiator.answers = lambda _command: 0
    record = DATABASE / "send_targets/10.0.0.1,3260"
    site.host.mkdir(record)
    for name in ("st_config", ".st_config.7.1.tmp"):
        site.host.put(record / name, b"discovery.sendtargets.auth.password = asks12345678\n", 0o600)
    if goes_on:
        asking.set_up(site.host)
        assert not [each for each in site.records() if "send_targets" in each]
    asking.unmount_device(site.host)
    assert site.is_clean


def test_what_a_killed_daemon_left_beside_a_record_goes_with_it(site: Site) -> None:
    ready = volume().set_up(site.host)
    (record,) = site.records()
    site.host.put((DATABASE / record).parent / ".default.7.1.tmp", b"node.session.auth.password = x\n", 0o600)
    ready.unmount_device(site.host)
    assert site.is_clean


def test_keys_that_are_missing_are_not_set(site: Site) -> None:
    some = {key: SECRET[key] for key in ("node.session.auth.username", "node.session.auth.password")}
    with_secret(volume(chap_auth_session=True, secret_ref=SecretReference(name="chap")), some).set_up(site.host)
    (record,) = site.records()
    assert b"username_in" not in site.host.content(DATABASE / record)


def test_a_line_break_in_a_secret_writes_no_line_of_a_record(site: Site) -> None:
    data = {"node.session.auth.password": b"x\nnode.startup = automatic"}
    with pytest.raises(OperationError, match=r"key node\.session\.auth\.password of the Secret") as caught:
        with_secret(volume(chap_auth_session=True, secret_ref=SecretReference(name="chap")), data).set_up(site.host)
    assert "automatic" not in str(caught.value)
    assert site.is_clean


def test_a_secret_that_is_missing_is_waited_for(site: Site) -> None:
    with pytest.raises(TransientError, match="chap, which is missing"):
        volume(chap_auth_session=True, secret_ref=SecretReference(name="chap")).mount_device(site.host)
    assert site.commands() == []


def test_the_secret_is_the_pod_s_unless_a_persistent_volume_says_another() -> None:
    chap = SecretReference(name="chap", namespace="storage")
    inline = volume(chap_auth_session=True, secret_ref=chap)
    claimed = replace(inline, spec_fields={"pv": PersistentVolume(metadata=ObjectMeta(name="pv-1"))})

    def namespaces(of: Volume) -> list[str]:
        references: Iterable[Reference] = of.plugin.references(of.spec, pod())
        return [each.ref.namespace for each in references]

    assert namespaces(inline) == ["default"]
    assert namespaces(claimed) == ["storage"]
    assert namespaces(volume(secret_ref=chap)) == []


# Interfaces (scenario 112)

OWN = "10.0.0.1:3260:data"


def test_an_initiator_name_makes_an_interface_that_goes_with_the_volume(site: Site) -> None:
    ready = volume(initiator_name="iqn.2026-01.io.test:own").set_up(site.host)
    assert site.commands()[:4] == [
        "-m iface -I default -o show",
        f"-m iface -I {OWN} -o new",
        f"-m iface -I {OWN} -o update -n iface.initiatorname -v iqn.2026-01.io.test:own",
        f"-m iface -I {OWN} -o update -n iface.transport_name -v tcp",
    ]
    ready.unmount_device(site.host)
    assert site.commands()[-1] == f"-m iface -I {OWN} -o delete"
    assert site.is_clean


def test_an_interface_that_cannot_be_set_is_deleted(site: Site) -> None:
    site.initiator.answers = lambda command: 1 if "transport_name" in command else 0
    with pytest.raises(OperationError, match=r"setting iface\.transport_name of interface"):
        volume(initiator_name="iqn.2026-01.io.test:own").mount_device(site.host)
    assert [command.partition(" -o ")[2].partition(" ")[0] for command in site.commands()[:5]] == [
        "show",
        "new",
        "update",
        "update",
        "delete",
    ]
    assert site.is_clean


def test_an_interface_that_cannot_be_read_ends_it(site: Site) -> None:
    site.initiator.answers = lambda command: 1 if "-o show" in command else 0
    with pytest.raises(OperationError, match="reading interface default"):
        volume(initiator_name="iqn.2026-01.io.test:own").mount_device(site.host)
    assert len(site.commands()) == 1


# Several portals


def test_two_portals_are_one_map(site: Site) -> None:
    site.host.storage.multipathd = True
    ready = volume("10.0.0.1", "10.0.0.2:3260").set_up(site.host)
    assert ready.device_path == "/dev/dm-0"
    assert [len(each.disks) for each in site.host.storage.maps] == [2]
    assert sum("discovery" in command for command in site.commands()) == 1  # the first portal names both
    ready.unmount_device(site.host)
    assert site.is_clean
    assert site.host.storage.flushed == [Path("/dev/dm-0"), Path("/dev/sdb"), Path("/dev/sdc")]


def test_a_portal_that_is_silent_is_told_and_logged_in_at_when_it_answers(site: Site) -> None:
    site.host.storage.multipathd = True
    site.host.storage.paths_of_a_map = 1
    site.host.machine.silent.add("10.0.0.2")
    degraded = volume("10.0.0.1", "10.0.0.2")
    told = degraded.mount_device(site.host)
    assert [each.reason for each in told.notices if "10.0.0.2:3260" in each.message] == ["PortalMissing"]
    ready = replace(degraded, device_path=told.device_path)
    first = ready.mount(site.host)
    assert first.due_at is not None
    again = ready.mount(site.host, remount=True)
    assert again.due_at is not None
    assert again.due_at > first.due_at
    site.host.machine.silent.clear()
    repaired = ready.mount(site.host, remount=True)
    assert (repaired.due_at, repaired.notices) == (None, ())
    assert [len(each.disks) for each in site.host.storage.maps] == [2]
    ready.unmount(site.host)
    ready.unmount_device(site.host)
    assert site.is_clean


def test_only_a_volume_of_several_portals_is_ever_mounted_again() -> None:
    assert volume("10.0.0.1", "10.0.0.2").facets.remount
    assert not volume("10.0.0.1").facets.remount


def test_all_portals_silent_is_the_failure_of_the_portal(site: Site) -> None:
    site.host.machine.silent |= {"10.0.0.1", "10.0.0.2"}
    with pytest.raises(UnansweredError):
        volume("10.0.0.1", "10.0.0.2").mount_device(site.host)
    assert site.is_clean


def test_a_session_that_is_lost_at_once_is_told(site: Site) -> None:
    def iscsiadm(argv: tuple[str, ...], stdin: bytes) -> CommandResult:
        result = site.initiator.program(argv, stdin)
        if "--login" in argv:
            site.initiator.set_state(1, "FAILED")
        return result

    site.host.programs["iscsiadm"] = iscsiadm
    with pytest.raises(UnansweredError, match="lost as soon as it was there"):
        volume().mount_device(site.host)
    assert site.is_clean


def test_a_portal_that_refuses_is_tried_as_often_as_kubelet_does(site: Site) -> None:
    site.initiator.answers = lambda command: 19 if "10.0.0.2:3260" in command and "--login" in command else 0
    volume("10.0.0.1", "10.0.0.2").mount_device(site.host)
    assert sum("10.0.0.2:3260" in command and "--login" in command for command in site.commands()) == 5


def test_another_pod_of_a_volume_uses_the_connection_that_is_there(site: Site) -> None:
    """Each Pod calls the volume in its own way, and an interface with an initiator name is called by that."""
    site.host.storage.multipathd, site.host.storage.paths_of_a_map = True, 1
    site.host.machine.silent.add("10.0.0.2")
    first = volume("10.0.0.1", "10.0.0.2", name="a", initiator_name="iqn.2026-01.io.test:own").set_up(site.host)
    second = replace(
        volume("10.0.0.1", name="b", initiator_name="iqn.2026-01.io.test:own"), device_path=first.device_path
    )
    shared = first.device_target(site.host)
    assert shared is not None
    site.host.machine.silent.clear()
    second.mount(site.host, device_target=shared, remount=True)
    assert [len(each.disks) for each in site.host.storage.maps] == [2]
    assert second.mount_device(site.host, target=shared).device_path == first.device_path
    assert {each.interface for each in site.initiator.sessions.values()} == {"10.0.0.1:3260:a"}
    assert second.expand(site.host, device_target=shared).size == 16 << 20
    second.unmount(site.host)
    first.unmount_device(site.host)
    assert site.is_clean


# What is found on disk


def test_a_volume_is_rebuilt_whole_with_its_portals(site: Site) -> None:
    site.host.storage.multipathd = True
    ready = volume("10.0.0.1", "10.0.0.2:3260", initiator_name="iqn.2026-01.io.test:own").set_up(site.host)
    ready.mount(site.host)
    rebuilt = ready.reconstruct(site.host)
    assert rebuilt.spec.source == replace(ready.spec.source, iscsi_interface="default")
    assert ready.name_of(rebuilt.spec) == ready.unique_name


def test_what_kubelet_left_is_found_and_given_back_over_all_portals(site: Site) -> None:
    ready = volume("10.0.0.1:3260", "10.0.0.2:3260").set_up(site.host)
    for path in site.host.files.names(site.host.paths.state / "iscsi/connections"):
        site.host.files.remove_file(site.host.paths.state / "iscsi/connections" / path)
    (found,) = Iscsi().devices(site.host)
    assert found.spec is not None
    assert ready.name_of(found.spec) == ready.unique_name
    ready.unmount_device(site.host)
    assert site.is_clean


def test_a_device_s_map_is_no_pod_s(site: Site) -> None:
    volume(spec={"mode": VolumeMode.BLOCK}).set_up(site.host)
    (found,) = Iscsi().devices(site.host)
    assert found.pod_uids == ()


def test_after_a_reboot_what_is_left_is_records_and_they_go(site: Site) -> None:
    ready = volume().set_up(site.host)
    site.host.reboot()
    site.initiator.end(1)
    ready.unmount_device(site.host)
    assert site.is_clean


def test_the_size_of_every_path_is_read_anew_before_the_map_s(site: Site) -> None:
    site.host.storage.multipathd = True
    ready = volume("10.0.0.1", "10.0.0.2").set_up(site.host)
    ready.mount(site.host)
    site.host.storage.mapped[site.host.storage.known[0].address][0].grow(32 << 20)
    assert ready.expand(site.host, new_size=32 << 20).size == 32 << 20
