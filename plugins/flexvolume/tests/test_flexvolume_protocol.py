"""What is said to a driver, and what its answers mean; kept in memory."""

import base64
import json
import string
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volmgr.plugin import (
    FlexVolumeSource,
    Mount,
    ObjectMeta,
    OperationError,
    PersistentVolume,
    Secret,
    SecretReference,
    VolumeSpec,
)
from volmgr.testing import FakeHost
from volmgr.testing.volume import pod
from volmgr_flexvolume.protocol import Capabilities, encoded, mount_options_of, options_json, read_reply
from volmgr_flexvolume.volume import secret_of

NAME = "example.com/disk"


def spec(read_only: bool = False, **fields: object) -> VolumeSpec[FlexVolumeSource]:
    source = FlexVolumeSource(driver=NAME, **fields)  # type: ignore[arg-type]
    return VolumeSpec(name="data", type="flexVolume", source=source, read_only=read_only)


def mount(read_only: bool = False, fs_group: int | None = None) -> Mount[FlexVolumeSource]:
    host = FakeHost()
    return Mount(
        spec=spec(),
        volume="v",
        pod=pod("web", service_account_name="robot"),
        target=host.paths.volume("uid-web", NAME, "data"),
        read_only=read_only,
        fs_group=fs_group,
    )


def test_keys_of_an_answer_may_be_in_any_case() -> None:
    reply = read_reply('{"STATUS":"Success","Device":"/dev/x","VolumeName":"n","aTTached":true,"volumeNewSize":5}')
    assert (reply.status, reply.device, reply.volume_name) == ("Success", "/dev/x", "n")
    assert reply.attached
    assert reply.new_size == 5


def test_what_init_does_not_say_is_as_kubelet_has_it() -> None:
    assert read_reply('{"status":"Success"}').capabilities == Capabilities(
        attach=True, selinux_relabel=True, supports_metrics=False, fs_group=True, requires_fs_resize=True
    )
    some = read_reply('{"status":"Success","capabilities":{"ATTACH":false,"supportsmetrics":true,"fsGroup":null}}')
    assert some.capabilities == Capabilities(attach=False, supports_metrics=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ok",
        "[]",
        "null",
        '{"status":"Success"} trailing',
        'mounting…\n{"status":"Success"}',
        '{"status":1}',
        '{"status":"Success","attached":"yes"}',
        '{"status":"Success","volumeNewSize":1.5}',
        '{"status":"Success","capabilities":[]}',
        '{"status":"Success","capabilities":{"attach":"no"}}',
        "[" * 100_000,
    ],
)
def test_what_is_no_answer_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of several kinds, each of which is said to the driver's author
        read_reply(text)


@given(st.text())
def test_whatever_a_driver_writes_is_an_answer_or_a_value_error(text: str) -> None:
    try:
        reply = read_reply(text)
    except ValueError:
        return
    assert isinstance(reply.status, str)


def test_an_answer_shows_nothing_that_may_be_secret() -> None:
    reply = read_reply('{"status":"Failure","message":"password hunter2","device":"hunter2","volumeName":"hunter2"}')
    assert "hunter2" not in repr(reply)


def test_options_say_type_mode_and_name() -> None:
    assert json.loads(options_json(spec(fs_type="xfs", read_only=True))) == {
        "kubernetes.io/fsType": "xfs",
        "kubernetes.io/readwrite": "ro",
        "kubernetes.io/pvOrVolumeName": "data",
    }


def test_mount_is_told_the_pod_and_its_group_too() -> None:
    told = json.loads(options_json(spec(), mount_options_of(mount(read_only=True, fs_group=4711), {"k": "dg=="})))
    assert told == {
        "kubernetes.io/fsType": "",
        "kubernetes.io/readwrite": "ro",
        "kubernetes.io/pvOrVolumeName": "data",
        "kubernetes.io/pod.name": "web",
        "kubernetes.io/pod.namespace": "default",
        "kubernetes.io/pod.uid": "uid-web",
        "kubernetes.io/serviceAccount.name": "robot",
        "kubernetes.io/mounterArgs.FsGroup": "4711",
        "kubernetes.io/secret/k": "dg==",
    }


def test_without_a_group_there_is_no_word_of_one() -> None:
    assert "kubernetes.io/mounterArgs.FsGroup" not in mount_options_of(mount(), {})


@given(st.dictionaries(st.text(string.ascii_letters + "/.", min_size=1), st.text()))
def test_options_of_the_user_override_all_others(options: dict[str, str]) -> None:
    own = {**options, "kubernetes.io/fsType": "mine", "kubernetes.io/pod.uid": "mine", "kubernetes.io/secret/k": "mine"}
    told = json.loads(options_json(spec(options=own), mount_options_of(mount(), {"k": "dg=="})))
    assert {key: told[key] for key in own} == own


def test_a_secret_of_the_drivers_type_is_passed_on_in_base64() -> None:
    secret = Secret(metadata=ObjectMeta(name="s"), type=NAME, data=MappingProxyType({"key": b"\xffpass"}))
    assert encoded(secret, NAME) == {"key": base64.b64encode(b"\xffpass").decode()}


def test_a_secret_of_another_type_is_refused_naming_both() -> None:
    secret = Secret(metadata=ObjectMeta(name="s", namespace="n"), data=MappingProxyType({"key": b"hunter2"}))
    with pytest.raises(OperationError, match=r"n/s to driver example\.com/disk: its type is 'Opaque'") as error:
        encoded(secret, NAME)
    assert "hunter2" not in str(error.value)


def test_a_secret_is_in_the_pods_namespace_unless_a_persistent_volume_names_another() -> None:
    inline = spec(secret_ref=SecretReference(name="s", namespace="elsewhere"))
    bound = VolumeSpec(
        name="pv", type="flexVolume", source=inline.source, pv=PersistentVolume(metadata=ObjectMeta(name="pv"))
    )
    assert str(secret_of(inline, pod())) == "Secret default/s"
    assert str(secret_of(bound, pod())) == "Secret elsewhere/s"
    assert secret_of(spec(), pod()) is None
