"""The fragment of an OCI configuration, as the runtime specification has it."""

from typing import cast

from volmgr.cli.oci import fragment, fragments
from volmgr.report.mounts import ContainerReport, DeviceReport, MountReport


def mount(target: str, *, source: str = "/host", problem: str = "") -> MountReport:
    return MountReport(
        volume="v",
        source=source,
        target=target,
        read_only=True,
        propagation="rslave",
        options=("rbind", "rslave", "ro"),
        problem=problem,
    )


DISK = DeviceReport(volume="d", path="/dev/x", source="/dev/loop3", major=7, minor=3, mode=0o660, permissions="mr")


def test_mounts_are_binds_with_their_options_and_outer_ones_come_first() -> None:
    container = ContainerReport(
        name="web", kind="main", mounts=(mount("/a/b/c"), mount("/z"), mount("/a/"), mount("/a/b", source="/other"))
    )

    made = cast("list[dict[str, object]]", fragment(container)["mounts"])

    assert [each["destination"] for each in made] == ["/z", "/a/", "/a/b", "/a/b/c"]
    assert made[2] == {
        "destination": "/a/b",
        "type": "bind",
        "source": "/other",
        "options": ["rbind", "rslave", "ro"],
    }


def test_devices_are_made_and_allowed_and_groups_are_the_user_s() -> None:
    container = ContainerReport(name="web", kind="main", devices=(DISK,), supplemental_groups=(5, 7))

    assert fragment(container) == {
        "mounts": [],
        "process": {"user": {"additionalGids": [5, 7]}},
        "linux": {
            "devices": [{"path": "/dev/x", "type": "b", "major": 7, "minor": 3, "fileMode": 0o660, "uid": 0, "gid": 0}],
            "resources": {"devices": [{"allow": True, "type": "b", "major": 7, "minor": 3, "access": "rm"}]},
        },
    }


def test_what_could_not_be_had_is_left_out() -> None:
    lost = DeviceReport(volume="d", path="/dev/y", problem="gone")
    container = ContainerReport(name="web", kind="main", mounts=(mount("/a", problem="refused"),), devices=(lost,))

    made = fragments([container, ContainerReport(name="other", kind="init")])

    assert list(made) == ["web", "other"]
    assert made["web"] == made["other"]
