"""What volume types need of a node, as they say it to the doctor: unmet, optional, wrongly said, not said at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.core.packages import site
from volmgr.cli.type_checks import broken, types
from volmgr.plugin import Handles, Host, PluginError, Requirement, VolumePlugin
from volmgr.report.doctor import Finding
from volmgr.testing import FakeHost
from volmgr.testing.node import plugins_of

NAME = "example.com/share"
MISSING = Requirement(check="mount.share", met=False, detail="not installed", remedy="install share-utils")


class Share(VolumePlugin[object]):
    """Needs what it is told to need; an error is raised."""

    name = NAME
    handles = (Handles("share", source=object),)

    def __init__(self, answer: object = ()) -> None:
        self._answer = answer

    def requirements(self, host: Host) -> tuple[Requirement, ...]:
        del host
        if isinstance(self._answer, BaseException):
            raise self._answer
        answer: tuple[Requirement, ...] = self._answer  # type: ignore[assignment] # pyright: ignore[reportAssignmentType] - foreign code
        return answer


class Plain(VolumePlugin[object]):
    name = "example.com/plain"
    handles = (Handles("plain", source=object),)


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


def said(answer: object, host: Host) -> list[Finding]:
    return list(types(plugins_of(Plain(), Share(answer)), host))


def test_what_a_type_needs_and_has_not_is_wrong_and_has_its_remedy(host: FakeHost) -> None:
    wrong = Finding(f"{NAME} mount.share", ok=False, detail="not installed", remedy="install share-utils")
    assert said((MISSING,), host) == [wrong]


def test_what_only_some_volumes_need_is_a_note(host: FakeHost) -> None:
    optional = Requirement(check="multipath", met=False, detail="not installed", remedy="install it", optional=True)
    (note,) = said((optional,), host)
    assert note.ok
    assert note.remedy == "install it"


def test_what_is_there_is_shown_without_a_remedy(host: FakeHost) -> None:
    there = Requirement(check="mount.share", met=True, detail="/sbin/mount.share", remedy="install share-utils")
    assert said((there,), host) == [Finding(f"{NAME} mount.share", ok=True, detail="/sbin/mount.share")]


def test_nothing_is_wrong_without_a_remedy(host: FakeHost) -> None:
    (wrong,) = said((Requirement(check="share", met=False, detail="not loaded"),), host)
    assert wrong.remedy == "the documentation of test-share says it"


@pytest.mark.parametrize("error", [RuntimeError("no such thing"), SystemExit(1), PluginError("no such thing")])
def test_a_type_that_cannot_say_it_is_a_finding_and_the_next_one_is_asked(host: FakeHost, error: BaseException) -> None:
    plugins = plugins_of(Share(error))
    plugins.types["example.com/z"] = plugins_of(Share((MISSING,))).types[NAME]
    failed, asked = types(plugins, host)
    assert not failed.ok
    assert failed.check == NAME
    assert str(error) in failed.detail
    assert failed.remedy == "repair or upgrade test-share"
    assert asked.detail == "not installed"


@pytest.mark.parametrize("answer", [None, [MISSING], ("mount.share",)])
def test_an_answer_of_another_kind_is_a_finding_that_names_the_package(host: FakeHost, answer: object) -> None:
    (wrong,) = said(answer, host)
    assert "requirements() of test-share 0 (test) gave" in wrong.detail


def test_a_package_that_cannot_be_used_is_wrong_and_has_a_remedy(tmp_path: Path) -> None:
    with site(tmp_path) as here:
        here.install("acme-bad", "raise ImportError('no libshare')", "Bad")
        (wrong,) = broken(here.load())
    assert wrong.check == "package acme-bad"
    assert "no libshare" in wrong.detail
    assert wrong.remedy == "repair or uninstall acme-bad"
