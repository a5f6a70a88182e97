"""What a driver is asked beyond the paths: access modes, groups, Pods, tokens, Secrets, read-only, the attachment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.csi.fault_driver.rules import Rule
from tests.csi.in_memory import (
    ALL,
    IMAGE_FILE,
    NAME,
    NODE,
    POD_VOLUME,
    STAGED,
    Site,
    csi_driver,
    inline,
    of_pod,
    persistent,
    running_in_memory,
)
from volmgr.model.objects import TokenRequest
from volmgr.model.tokens import Token
from volmgr.plugin import (
    CsiSource,
    ObjectMeta,
    OperationError,
    Pod,
    Secret,
    SecretReference,
    ServiceAccount,
    SpecError,
    TransientError,
    UncertainError,
    VolumeAttachment,
    VolumeMode,
    WaitForAttach,
    attachment_name,
)
from volmgr.testing import Volume
from volmgr_csi.driver.drivers import Abilities
from volmgr_csi.settings import CsiSettings
from volmgr_csi.volume import Csi

ATTACHMENT = attachment_name(NAME, "h", NODE)
DAY = 86_400.0
OWNER = "0:0"
GROUP = 3000


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with running_in_memory(tmp_path) as running:
        yield running


def mount(volume: Volume, site: Site, **changes: Any) -> None:  # noqa: ANN401 - fields of requests
    """Do what the core does for a Pod on this node."""
    volume.mount_device(site.host, node_name=NODE, **changes)
    volume.mount(site.host, node_name=NODE, **changes)


def asked(site: Site, method: str = "NodePublishVolume") -> Mapping[str, Any]:
    """Give the one request of a method."""
    (request,) = site.requests(method)
    return request


@pytest.mark.parametrize(
    ("modes", "plain", "capable"),
    [
        ((), "SINGLE_NODE_WRITER", "SINGLE_NODE_MULTI_WRITER"),
        (("ReadWriteOnce",), "SINGLE_NODE_WRITER", "SINGLE_NODE_MULTI_WRITER"),
        (("ReadWriteOncePod",), "SINGLE_NODE_WRITER", "SINGLE_NODE_SINGLE_WRITER"),
        (("ReadOnlyMany",), "MULTI_NODE_READER_ONLY", "MULTI_NODE_READER_ONLY"),
        (("ReadWriteMany",), "MULTI_NODE_MULTI_WRITER", "MULTI_NODE_MULTI_WRITER"),
        (("ReadOnlyMany", "ReadWriteMany"), "MULTI_NODE_READER_ONLY", "MULTI_NODE_READER_ONLY"),
        (("ReadWriteOnce", "ReadOnlyMany"), "SINGLE_NODE_WRITER", "SINGLE_NODE_MULTI_WRITER"),
    ],
)
@pytest.mark.parametrize("is_capable", [False, True])
def test_the_first_access_mode_is_the_driver_s(
    site: Site, modes: tuple[str, ...], plain: str, capable: str, is_capable: bool
) -> None:
    site.register(replace(ALL, single_node_multi_writer=is_capable))
    mount(persistent(pv={"access_modes": modes}), site)
    wanted = {"mode": capable if is_capable else plain}
    for method in ("NodeStageVolume", "NodePublishVolume"):
        assert asked(site, method)["volumeCapability"]["accessMode"] == wanted


def test_a_driver_with_mount_groups_is_told_the_group_and_the_node_changes_nothing(site: Site) -> None:
    site.register(replace(ALL, mount_group=True))
    mount(persistent(fs_type="ext4"), site, fs_group=GROUP)
    for method in ("NodeStageVolume", "NodePublishVolume"):
        assert asked(site, method)["volumeCapability"]["mount"] == {"fsType": "ext4", "volumeMountGroup": "3000"}
    assert f" {OWNER}" in site.tree()[f"{POD_VOLUME}/mount"]


def test_a_driver_without_mount_groups_is_told_none(site: Site) -> None:
    mount(persistent(fs_type="ext4"), site, fs_group=GROUP)
    assert asked(site)["volumeCapability"]["mount"] == {"fsType": "ext4"}
    assert " 0:3000" in site.tree()[f"{POD_VOLUME}/mount"]


@pytest.mark.parametrize(
    ("policy", "fs_type", "modes", "read_only", "is_given"),
    [
        ("ReadWriteOnceWithFSType", "ext4", ("ReadWriteOnce",), False, True),
        ("ReadWriteOnceWithFSType", "ext4", ("ReadWriteOncePod",), False, True),
        ("ReadWriteOnceWithFSType", "ext4", ("ReadOnlyMany", "ReadWriteOnce"), False, True),
        ("ReadWriteOnceWithFSType", "", ("ReadWriteOnce",), False, False),
        ("ReadWriteOnceWithFSType", "ext4", ("ReadWriteMany",), False, False),
        ("ReadWriteOnceWithFSType", "ext4", (), False, False),
        ("ReadWriteOnceWithFSType", "ext4", ("ReadWriteOnce",), True, False),
        ("File", "", ("ReadWriteMany",), False, True),
        ("File", "", ("ReadWriteMany",), True, False),
        ("None", "ext4", ("ReadWriteOnce",), False, False),
    ],
)
def test_the_group_gets_the_files_by_the_driver_s_policy(
    site: Site, policy: str, fs_type: str, modes: tuple[str, ...], read_only: bool, is_given: bool
) -> None:
    volume = persistent(csi_driver(fs_group_policy=policy), fs_type=fs_type, pv={"access_modes": modes})
    volume = replace(volume, spec_fields={**volume.spec_fields, "read_only": read_only})
    mount(volume, site, fs_group=GROUP)
    assert (" 0:3000" in site.tree()[f"{POD_VOLUME}/mount"]) is is_given
    assert volume.facets.fs_group.value == ("plugin" if is_given else "nobody")


def test_without_a_csi_driver_the_group_gets_the_files_by_the_default_policy(site: Site) -> None:
    volume = replace(persistent(fs_type="ext4"), objects={})
    assert volume.facets.attach
    mount(volume, site, fs_group=GROUP)
    assert " 0:3000" in site.tree()[f"{POD_VOLUME}/mount"]


@pytest.mark.parametrize(("fs_type", "is_given"), [("tmpfs", True), ("", False)])
def test_an_inline_volume_with_a_file_system_type_is_given_to_the_group(
    site: Site, fs_type: str, is_given: bool
) -> None:
    mount(inline(fs_type=fs_type), site, fs_group=GROUP)
    assert (" 0:3000" in site.tree()[f"{POD_VOLUME}/mount"]) is is_given


def test_a_driver_that_asks_for_it_is_told_of_the_pod(site: Site) -> None:
    told = csi_driver(pod_info_on_mount=True)
    mount(of_pod(persistent(told, volume_attributes={"a": "b"}), service_account_name="robot"), site)
    assert asked(site)["volumeContext"] == {
        "a": "b",
        "csi.storage.k8s.io/pod.name": "web",
        "csi.storage.k8s.io/pod.namespace": "default",
        "csi.storage.k8s.io/pod.uid": "uid-web",
        "csi.storage.k8s.io/serviceAccount.name": "robot",
        "csi.storage.k8s.io/ephemeral": "false",
    }
    assert asked(site, "NodeStageVolume")["volumeContext"] == {"a": "b"}


def test_a_driver_of_an_inline_volume_is_told_that_it_is_one(site: Site) -> None:
    mount(inline(csi_driver(pod_info_on_mount=True)), site)
    assert asked(site)["volumeContext"]["csi.storage.k8s.io/ephemeral"] == "true"


def test_a_driver_of_a_block_volume_is_told_of_the_pod_and_gets_no_tokens(site: Site) -> None:
    site.host.files.write(IMAGE_FILE, bytes(1 << 20))
    wishes = csi_driver(pod_info_on_mount=True, token_requests=(TokenRequest(audience="a"),))
    site.host.with_tokens(Issuer())
    mount(persistent(wishes, mode=VolumeMode.BLOCK), site)
    assert asked(site)["volumeContext"]["csi.storage.k8s.io/pod.name"] == "web"
    assert "csi.storage.k8s.io/serviceAccount.tokens" not in asked(site)["volumeContext"]


@pytest.mark.parametrize("objects", [(csi_driver(),), ()], ids=["not asked for", "no CSIDriver"])
def test_who_does_not_ask_is_told_nothing_of_the_pod(site: Site, objects: tuple[Any, ...]) -> None:
    volume = persistent(volume_attributes={"a": "b"})
    mount(volume if objects else replace(volume, objects={}), site)
    assert asked(site)["volumeContext"] == {"a": "b"}


@dataclass
class Issuer:
    """Issues tokens that say for whom they are."""

    asked: list[tuple[str, int, bool]] = field(default_factory=list[tuple[str, int, bool]])

    def issue(
        self,
        pod: Pod,
        *,
        audience: str,
        expiration_seconds: int,
        account: ServiceAccount | None = None,
        held: str = "",
    ) -> Token:
        """Give one."""
        del held
        self.asked.append((audience, expiration_seconds, account is not None))
        end = 1_700_000_000.0
        return Token(value=f"<{pod.uid}>", issued_at=end - expiration_seconds, expires_at=end)


TOKENS = (
    '{"":{"expirationTimestamp":"2023-11-14T22:13:20Z","token":"\\u003cuid-web\\u003e"},'
    '"vault":{"expirationTimestamp":"2023-11-14T22:13:20Z","token":"\\u003cuid-web\\u003e"}}'
)
WISHES = (TokenRequest(audience="vault", expiration_seconds=600), TokenRequest())


def test_tokens_are_attributes(site: Site) -> None:
    issuer = Issuer()
    site.host.with_tokens(issuer)
    account = ServiceAccount(metadata=ObjectMeta(name="default"))
    mount(persistent(csi_driver(token_requests=WISHES), account), site)
    assert asked(site)["volumeContext"] == {"csi.storage.k8s.io/serviceAccount.tokens": TOKENS}
    assert "secrets" not in asked(site)
    assert issuer.asked == [("vault", 600, True), ("", 3600, True)]
    assert "volumeContext" not in asked(site, "NodeStageVolume")


def test_tokens_are_secrets_where_the_driver_wants_that(site: Site) -> None:
    site.host.with_tokens(Issuer())
    driver = csi_driver(token_requests=WISHES, service_account_token_in_secrets=True)
    secret = Secret(metadata=ObjectMeta(name="login", namespace="kube-system"), data={"user": b"me"})
    ref = SecretReference(name="login", namespace="kube-system")
    mount(persistent(driver, secret, node_publish_secret_ref=ref), site)
    assert asked(site)["secrets"] == {"user": "me", "csi.storage.k8s.io/serviceAccount.tokens": TOKENS}
    assert "volumeContext" not in asked(site)


def test_a_node_that_issues_no_tokens_says_so_and_publishes_nothing(site: Site) -> None:
    volume = persistent(csi_driver(token_requests=WISHES))
    volume.mount_device(site.host)
    with pytest.raises(SpecError, match="token_issuer"):
        volume.mount(site.host)
    assert site.requests("NodePublishVolume") == []
    assert f"{POD_VOLUME}" not in site.tree()


def test_a_volume_that_is_republished_is_due_after_the_interval_or_with_its_first_token(site: Site) -> None:
    site.host.with_tokens(Issuer())
    again = csi_driver(requires_republish=True)
    plain = persistent(again)
    assert plain.facets.remount
    plain.mount_device(site.host)
    site.host.with_settings(CsiSettings(republish_interval=DAY))
    due = plain.mount(site.host).due_at
    assert due is not None
    assert due > 1_700_000_000.0 + DAY  # by the clock of today
    tokens = replace(again, token_requests=WISHES)
    volume = persistent(tokens)
    assert volume.mount(site.host).due_at == 1_700_000_000.0 - 3600 * 0.2  # the longest life begins first
    assert persistent(replace(tokens, requires_republish=False)).mount(site.host).due_at is None


def test_secrets_are_those_that_each_call_names(site: Site) -> None:
    def secret(name: str, namespace: str) -> Secret:
        return Secret(metadata=ObjectMeta(name=name, namespace=namespace), data={"of": f"{namespace}/{name}".encode()})

    def ref(name: str) -> SecretReference:
        return SecretReference(name=name, namespace="storage")

    secrets = [secret(name, "storage") for name in ("stage", "publish", "expand")]
    volume = persistent(
        csi_driver(),
        *secrets,
        node_stage_secret_ref=ref("stage"),
        node_publish_secret_ref=ref("publish"),
        node_expand_secret_ref=ref("expand"),
    )
    mount(volume, site)
    volume.expand(site.host, new_size=1 << 20)
    told = {method: asked(site, method)["secrets"]["of"] for method in site.named()}
    assert told == {
        "NodeStageVolume": "storage/stage",
        "NodePublishVolume": "storage/publish",
        "NodeExpandVolume": "storage/expand",
    }


def test_the_secret_of_an_inline_volume_is_in_its_pod_s_namespace(site: Site) -> None:
    secret = Secret(metadata=ObjectMeta(name="login", namespace="default"), data={"user": b"me"})
    mount(inline(csi_driver(), secret, node_publish_secret_ref=SecretReference(name="login")), site)
    assert asked(site)["secrets"] == {"user": "me"}


@pytest.mark.parametrize("field", ["node_stage_secret_ref", "node_publish_secret_ref"])
def test_a_missing_secret_is_waited_for_and_nothing_is_left(site: Site, field: str) -> None:
    named: dict[str, Any] = {field: SecretReference(name="login", namespace="storage")}
    volume = persistent(**named)
    with pytest.raises(TransientError) as caught:
        mount(volume, site)
    assert caught.value.waits_for == "Secret storage/login"
    assert POD_VOLUME not in site.tree()
    assert (STAGED in site.tree()) is (field == "node_publish_secret_ref")


def test_a_missing_driver_is_waited_for_by_name_and_nothing_is_left(site: Site) -> None:
    site.known.drop(NAME)
    for volume in (persistent(), inline()):
        with pytest.raises(TransientError, match="not found in the list of registered CSI drivers") as caught:
            mount(volume, site)
        assert caught.value.waits_for == f"csi driver {NAME}"
    assert site.left() == []


def test_a_retired_driver_makes_nothing_and_takes_away_what_is_there(site: Site) -> None:
    volume = persistent()
    mount(volume, site)
    site.register(ALL, retired=True)
    with pytest.raises(TransientError):
        volume.mount(site.host)
    volume.unmount(site.host)
    volume.unmount_device(site.host)
    assert site.left() == []


def attachment(**said: Any) -> VolumeAttachment:  # noqa: ANN401 - fields
    return VolumeAttachment(metadata=ObjectMeta(name=ATTACHMENT), attacher=NAME, node_name=NODE, **said)


def test_what_was_said_at_the_attachment_is_told_at_staging_and_publishing(site: Site) -> None:
    attached = attachment(attached=True, attachment_metadata={"device": "7"})
    mount(persistent(csi_driver(attach_required=True), attached), site)
    for method in ("NodeStageVolume", "NodePublishVolume"):
        assert asked(site, method)["publishContext"] == {"device": "7"}


def test_who_need_not_be_attached_is_told_nothing_of_it(site: Site) -> None:
    mount(persistent(csi_driver(), attachment(attached=True, attachment_metadata={"device": "7"})), site)
    assert "publishContext" not in asked(site)


def test_an_attached_volume_has_the_name_of_its_attachment_for_its_device_path(site: Site) -> None:
    volume = persistent(csi_driver(attach_required=True), attachment(attached=True))
    assert wait(volume, site) == ATTACHMENT


@pytest.mark.parametrize("error", ["", "no room"])
def test_a_volume_that_is_not_attached_yet_is_waited_for(site: Site, error: str) -> None:
    volume = persistent(csi_driver(attach_required=True), attachment(attach_error=error))
    with pytest.raises(TransientError, match=error or "not attached yet") as caught:
        wait(volume, site)
    assert caught.value.waits_for == f"VolumeAttachment {ATTACHMENT}"


def wait(volume: Volume, site: Site) -> str:
    """Wait for the attachment as the core does."""
    request: WaitForAttach[CsiSource] = WaitForAttach(
        spec=volume.spec, volume=volume.unique_name, node_name=NODE, objects=volume.objects
    )
    return Csi().wait_for_attach(request, site.host).device_path


def test_read_only_is_what_the_pod_says(site: Site) -> None:
    volume = persistent(read_only=True)
    mount(volume, site)
    assert "readonly" not in asked(site)
    volume.unmount(site.host)
    fields = {**volume.spec_fields, "read_only": True}
    replace(volume, spec_fields=fields).mount(site.host, node_name=NODE)
    assert site.requests("NodePublishVolume")[1]["readonly"] is True


def test_mount_options_are_told_in_their_order_and_without_ro(site: Site) -> None:
    pv = {"mount_options": ("vers=4.1", "hard", "acl"), "access_modes": ("ReadWriteMany",)}
    volume = persistent(pv=pv)
    fields = {**volume.spec_fields, "mount_options": ("acl", "hard", "vers=4.1"), "read_only": True}
    mount(replace(volume, spec_fields=fields), site)
    for method in ("NodeStageVolume", "NodePublishVolume"):
        assert asked(site, method)["volumeCapability"]["mount"]["mountFlags"] == ["vers=4.1", "hard", "acl"]


def test_a_driver_that_sees_other_paths_is_told_those(site: Site) -> None:
    settings = CsiSettings(paths={NAME: {"/var/lib/volmgr": "/host", "/var/lib/volmgr/pods": "/pods"}})
    site.host.with_settings(settings)
    volume = persistent()
    site.answer("NodeStageVolume", "INTERNAL")
    with pytest.raises(OperationError):
        volume.mount_device(site.host)
    site.answer("NodePublishVolume", "INTERNAL")
    with pytest.raises(OperationError):
        volume.mount(site.host)
    assert asked(site, "NodeStageVolume")["stagingTargetPath"].startswith("/host/plugins/kubernetes.io/csi/")
    assert asked(site)["targetPath"] == "/pods/uid-web/volumes/kubernetes.io~csi/data/mount"
    assert asked(site)["stagingTargetPath"].startswith("/host/plugins/")


def test_a_driver_is_given_the_time_that_the_operation_has(site: Site) -> None:
    site.host.with_settings(CsiSettings(call_timeout=0.05))
    site.script.add((_slow("NodeStageVolume"),))
    with pytest.raises(UncertainError, match="DEADLINE_EXCEEDED"):
        persistent().mount_device(site.host)
    site.host.with_settings(CsiSettings())
    site.script.add((_slow("NodePublishVolume"),))
    with pytest.raises(UncertainError, match="DEADLINE_EXCEEDED"):
        persistent().mount(site.host, deadline=site.host.now + 0.05)


def _slow(method: str) -> Rule:
    return Rule(method=method, gate_before="never opened")


def test_abilities_that_nobody_has_leave_nothing_to_ask(site: Site) -> None:
    site.register(Abilities())
    volume = persistent()
    mount(volume, site)
    volume.unmount(site.host)
    volume.unmount_device(site.host)
    assert site.named() == ["NodePublishVolume", "NodeUnpublishVolume"]


def test_a_csi_driver_says_how_often_its_limit_is_asked_for(site: Site) -> None:
    mount(persistent(csi_driver(node_allocatable_update_period_seconds=10)), site)
    assert site.known.period(NAME) == 10
    mount(persistent(), site)
    assert site.known.period(NAME) == 0
