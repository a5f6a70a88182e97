"""What iscsi reads and writes, without a host: portals, directories, iscsi.json, records, interfaces."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volmgr.plugin import OperationError, SecretReference, SpecError, VolumeSpec
from volmgr_iscsi import iscsi_json
from volmgr_iscsi.connection import Connection
from volmgr_iscsi.database import with_lines
from volmgr_iscsi.iscsiadm import Offer, interface_settings, offers
from volmgr_iscsi.plugin import Iscsi
from volmgr_iscsi.portals import Portal, named, without_repetition
from volmgr_iscsi.settings import IscsiSettings
from volmgr_iscsi.source import IscsiSource

IQN = "iqn.2026-01.io.test:disks"
SOURCE = IscsiSource(target_portal="10.0.0.1", iqn=IQN, lun=5)


def spec(source: IscsiSource = SOURCE, name: str = "data") -> VolumeSpec[IscsiSource]:
    return VolumeSpec(name=name, type="iscsi", source=source)


# Portals (scenario 109)


def test_a_portal_without_a_port_has_that_of_iscsi() -> None:
    assert named("127.0.0.1") == "127.0.0.1:3260"
    assert str(Portal.parse("127.0.0.1")) == "127.0.0.1:3260"
    assert Portal.parse("storage.example:860") == Portal("storage.example", 860)


def test_portals_that_are_written_twice_are_one_and_keep_their_order() -> None:
    given_twice = ("10.0.0.2", "10.0.0.1:3260", "10.0.0.2:3260", "10.0.0.1")
    assert without_repetition(given_twice) == ("10.0.0.2:3260", "10.0.0.1:3260")


@pytest.mark.parametrize("text", ["2001:db8::1", "[2001:db8::1]", "[2001:DB8:0::1]:3260"])
def test_an_address_of_ipv6_is_one_however_it_is_written(text: str) -> None:
    portal = Portal.parse(text)
    assert portal == Portal("2001:db8::1")
    assert (str(portal), portal.file_name) == ("[2001:db8::1]:3260", "2001:db8::1,3260")


@pytest.mark.parametrize("text", ["", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1/../..", "a b", "a,1"])
def test_what_is_no_portal_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"portal|port"):
        Portal.parse(text)


# Directories (scenario 114, report I17)


def test_a_directory_is_named_as_kubelet_names_it() -> None:
    assert Connection.of(spec()).directory == f"iface-default/10.0.0.1:3260-{IQN}-lun-5"
    of_its_own = spec(replace(SOURCE, initiator_name="iqn.2026-01.io.test:node"), "pv-1")
    assert Connection.of(of_its_own).directory == f"iface-10.0.0.1:3260:pv-1/10.0.0.1:3260-{IQN}-lun-5"


def test_the_volume_is_named_by_the_portal_as_the_manifest_has_it() -> None:
    assert Iscsi().volume_name(spec()) == f"10.0.0.1:{IQN}:5"


@pytest.mark.parametrize(
    ("name", "portal", "iqn"),
    [
        ("[2001:db8:0:f101::1]:3260-iqn.x:y-lun-0", "[2001:db8:0:f101::1]:3260", "iqn.x:y"),
        ("10.0.0.1:3260-eui.02004567a425678d-lun-0", "10.0.0.1:3260", "eui.02004567a425678d"),
        ("my-storage:3260-iqn.2026-01.io:a-lun-1-lun-0", "my-storage:3260", "iqn.2026-01.io:a-lun-1"),
    ],
)
def test_a_directory_s_name_says_portal_target_and_lun(name: str, portal: str, iqn: str) -> None:
    found = Connection.of_directory(Path("/plugins/iface-default", name))
    assert (found.portals, found.iqn, found.lun, found.interface) == ((portal,), iqn, 0, "default")


def test_other_directories_say_nothing() -> None:
    with pytest.raises(ValueError, match="malformatted mnt path"):
        Connection.of_directory(Path("/plugins/iface-default/10.0.0.1:3260-iqn.x:y"))
    with pytest.raises(ValueError, match="failed to retrieve iface"):
        Connection.of_directory(Path("/plugins/default/10.0.0.1:3260-iqn.x:y-lun-0"))


portals = st.builds("10.{}.{}.1{}".format, st.integers(0, 255), st.integers(0, 255), st.sampled_from(["", ":860"]))
iqns = st.from_regex(r"iqn\.2026-01\.[a-z0-9][a-z0-9.-]{0,9}(:[a-z0-9.:-]{1,9})?", fullmatch=True)
sources = st.builds(
    IscsiSource,
    target_portal=portals,
    portals=st.lists(portals, max_size=3).map(tuple),
    iqn=iqns,
    lun=st.integers(0, 255),
    iscsi_interface=st.sampled_from(["", "default", "bnx2i.00:10"]),
    initiator_name=st.just("") | iqns,
)


@settings(deadline=None)
@given(sources)
def test_a_volume_is_whole_after_a_round_trip_by_its_file(source: IscsiSource) -> None:
    connection = Connection.of(spec(source, "pv-1"))
    again = iscsi_json.decode(iscsi_json.encode(connection))
    assert again == connection
    assert Connection.of(spec(again.source, again.name)) == connection


@settings(deadline=None)
@given(sources)
def test_a_directory_s_name_leads_back_to_the_same_directory(source: IscsiSource) -> None:
    directory = Connection.of(spec(source, "pv-1")).directory
    found = Connection.of_directory(Path("/plugins", directory))
    assert Connection.of(spec(found.source)).directory == directory
    assert (found.iqn, found.lun) == (source.iqn, source.lun)


# iscsi.json


def test_the_file_is_kubelet_s_byte_for_byte() -> None:
    source = replace(SOURCE, portals=("10.0.0.2:3260",), initiator_name="iqn.2026-01.io.test:node")
    assert iscsi_json.encode(Connection.of(spec(source, "a<b"))) == (
        b'{"VolName":"a\\u003cb","Portals":["10.0.0.1:3260","10.0.0.2:3260"],"Iqn":"iqn.2026-01.io.test:disks",'
        b'"Lun":"5","InitIface":"default","Iface":"10.0.0.1:3260:a\\u003cb",'
        b'"InitiatorName":"iqn.2026-01.io.test:node","MetricsProvider":null}\n'
    )


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"Portals":[]}', b'{"Portals":["a"],"Lun":"x"}', b"\xff"])
def test_what_is_no_such_file_is_none(text: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        iscsi_json.decode(text)


# iscsiadm's words


def test_settings_of_an_interface_are_those_that_are_set() -> None:
    shown = "# BEGIN RECORD\niface.iscsi_ifacename = a\niface.transport_name = tcp\niface.initiatorname = <empty>\n"
    assert interface_settings(shown) == {"iface.transport_name": "tcp"}


@pytest.mark.parametrize("line", ["iface.transport_name", "iface.transport_name tcp", "iface.ipaddress = a b"])
def test_a_setting_that_cannot_be_read_is_an_error(line: str) -> None:
    with pytest.raises(OperationError, match="invalid iface setting"):
        interface_settings(line)


def test_what_a_portal_offers_is_read_line_by_line() -> None:
    answer = f"10.0.0.1:3260,1 {IQN}\n[2001:db8::1]:3260,-1 {IQN}\n\n"
    assert offers(answer) == (Offer(Portal("10.0.0.1"), 1, IQN), Offer(Portal("2001:db8::1"), -1, IQN))


def test_a_record_s_lines_are_replaced_and_no_others() -> None:
    record = "# BEGIN RECORD 2.1.8\nnode.startup = automatic\nnode.session.auth.authmethod = None\n# END RECORD\n"
    assert with_lines(record, {"node.startup": "manual", "node.session.scan": "manual"}) == (
        "# BEGIN RECORD 2.1.8\nnode.session.auth.authmethod = None\n"
        "node.startup = manual\nnode.session.scan = manual\n# END RECORD\n"
    )


# What no node could take


@pytest.mark.parametrize(
    ("field", "source"),
    [
        ("targetPortal", replace(SOURCE, target_portal="no portal")),
        ("portals", replace(SOURCE, portals=("10.0.0.2:99999",))),
        ("iqn", replace(SOURCE, iqn="disks")),
        ("iqn", replace(SOURCE, iqn="iqn.2026-01.io.test:../../etc")),
        ("lun", replace(SOURCE, lun=256)),
        ("initiatorName", replace(SOURCE, initiator_name="node-1")),
        ("iscsiInterface", replace(SOURCE, iscsi_interface="../x")),
        ("secretRef", replace(SOURCE, chap_auth_session=True)),
        ("secretRef", replace(SOURCE, chap_auth_discovery=True, secret_ref=SecretReference())),
    ],
)
def test_a_wrong_field_is_named(field: str, source: IscsiSource) -> None:
    with pytest.raises(SpecError, match=rf"invalid iscsi\.{field} of volume data: "):
        Iscsi().check(spec(source), None)


def test_what_shares_sessions_is_done_one_after_the_other() -> None:
    assert Iscsi().exclusive(spec()) == (f"iscsi target {IQN}",)
    asked = replace(SOURCE, chap_auth_discovery=True, portals=("10.0.0.2",))
    assert Iscsi().exclusive(spec(asked))[1:] == ("iscsi portal 10.0.0.1:3260", "iscsi portal 10.0.0.2:3260")


def test_failures_are_shared_by_portal() -> None:
    assert Iscsi().endpoint(spec()) == "portal 10.0.0.1:3260"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"login_timeout": 0}, "login_timeout is 0; write 1 or more, such as 15"),
        ({"repair_pause": 0.0}, "repair_pause is 0; write 1 or more, such as 60"),
        ({"device_timeout": -3.5}, "device_timeout is -3.5; write 0 or more, such as 30"),
        ({"enough_paths": -1}, "enough_paths is -1; write 0 or more, such as 2"),
    ],
)
def test_settings_that_make_no_sense_are_named(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=f"^{told}$"):
        IscsiSettings(**wrong)


def test_repairs_come_more_and_more_rarely() -> None:
    settings = IscsiSettings()
    assert [settings.pause(tries) for tries in (0, 1, 2, 9, 99)] == [60.0, 120.0, 240.0, 900.0, 900.0]
