"""Wrapper packages around one type's operations: they may refuse and report, and never make an outcome milder."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from tests.flow.core.probes import Plain, Script
from volmgr.errors import CommandError, OperationError, PluginError, SpecError, TransientError, UncertainError
from volmgr.model.volume import Facets
from volmgr.plugin import Handles, Host, Mount, Mounted, Unmounted, VolumePlugin, hookimpl
from volmgr.testing import FakeHost, Volume
from volmgr.volume_type import Origin, VolumeType

ORIGIN = Origin("test", "0", "test")
Around = Generator[None, Any, Any]


class Wrapper:
    """A wrapper package whose only hook is a given generator function."""

    def __init__(self, around: Callable[[], Around]) -> None:
        self._around = around

    @hookimpl(wrapper=True)
    def volmgr_mount(self) -> Around:
        return (yield from self._around())


class Late:
    """A wrapper package that wants to be the innermost one, and loses the result."""

    @hookimpl(wrapper=True, trylast=True)
    def volmgr_mount(self) -> Around:
        yield


def passing() -> Around:
    return (yield)


def losing() -> Around:
    yield


def raising_after(error: BaseException) -> Callable[[], Around]:
    def around() -> Around:
        yield
        raise error

    return around


def refusing(error: BaseException) -> Callable[[], Around]:
    def around() -> Around:
        refuse(error)
        yield

    return around


def refuse(error: BaseException) -> None:
    raise error


def changing(error: BaseException) -> Callable[[], Around]:
    def around() -> Around:
        try:
            return (yield)
        except BaseException as old:
            raise error from old

    return around


def swallowing() -> Around:
    try:
        return (yield)
    except Exception:  # noqa: BLE001 - that is what is wrong with it
        return Mounted()


def replacing(value: object) -> Callable[[], Around]:
    def around() -> Around:
        yield
        return value

    return around


def mount(script: Script, *wrappers: object) -> Any:  # noqa: ANN401 - whatever comes out
    """Mount by a type that is wrapped."""
    host = FakeHost()
    plugin = Plain(script)
    request = Volume(plugin, None).mount_request(host)
    return VolumeType(plugin, ORIGIN, wrappers).call("mount", request, host)


@pytest.fixture
def script() -> Script:
    return Script(facets=Facets())


def test_a_wrapper_that_passes_on_what_it_got_changes_nothing(script: Script) -> None:
    assert mount(script, Wrapper(passing), Wrapper(passing)) == Mounted()
    assert script.calls == ["mount"]


def test_a_wrapper_that_loses_the_result_makes_it_uncertain(script: Script) -> None:
    with pytest.raises(UncertainError, match="mount gave None instead of Mounted"):
        mount(script, Wrapper(losing))


def test_so_does_one_that_asked_to_be_the_innermost(script: Script) -> None:
    with pytest.raises(UncertainError, match="mount gave None instead of Mounted"):
        mount(script, Late())


def test_a_wrapper_that_gives_something_else_makes_it_uncertain(script: Script) -> None:
    with pytest.raises(UncertainError, match=r"mount gave Unmounted\(\) instead of Mounted"):
        mount(script, Wrapper(replacing(Unmounted())))


@pytest.mark.parametrize("error", [OperationError("no"), SpecError("no"), TransientError("no"), ValueError("no")])
def test_a_wrapper_that_fails_after_the_type_acted_makes_it_uncertain(script: Script, error: Exception) -> None:
    with pytest.raises(UncertainError, match="mount was done, but a wrapper then failed: no"):
        mount(script, Wrapper(raising_after(error)))


@pytest.mark.parametrize("error", [SpecError("policy"), OperationError("policy"), TransientError("policy")])
def test_a_wrapper_that_refuses_before_the_type_acted_is_believed(script: Script, error: Exception) -> None:
    with pytest.raises(type(error), match="policy"):
        mount(script, Wrapper(refusing(error)))
    assert script.calls == []


MILD_TO_SEVERE = [TransientError("t"), OperationError("o"), UncertainError("u"), ValueError("v")]


@pytest.mark.parametrize(
    ("given", "changed", "raised"),
    [
        (UncertainError("mine"), OperationError("milder"), "mine"),
        (UncertainError("mine"), TransientError("milder"), "mine"),
        (ValueError("mine"), OperationError("milder"), "mine"),
        (ValueError("mine"), SpecError("milder"), "mine"),
        (OperationError("mine"), TransientError("milder"), "mine"),
        (CommandError(["x"], 1, "mine"), SpecError("milder"), "mine"),
        (TransientError("mine"), OperationError("more severe"), "more severe"),
        (OperationError("mine"), UncertainError("more severe"), "more severe"),
        (SpecError("mine"), ValueError("more severe"), "more severe"),
        (OperationError("mine"), OperationError("as severe"), "as severe"),
    ],
    ids=lambda value: f"{type(value).__name__}" if isinstance(value, BaseException) else str(value),
)
def test_an_error_is_changed_to_a_more_severe_one_and_never_to_a_milder(
    script: Script, given: Exception, changed: Exception, raised: str
) -> None:
    script.fail("mount", given)
    with pytest.raises(type(given) if raised == "mine" else type(changed), match=raised):
        mount(script, Wrapper(changing(changed)))


def test_an_error_that_a_wrapper_swallows_is_raised_all_the_same(script: Script) -> None:
    script.fail("mount", OperationError("refused"))
    with pytest.raises(OperationError, match="refused"):
        mount(script, Wrapper(swallowing))


def test_one_type_s_keeper_remembers_nothing_of_the_call_before(script: Script) -> None:
    host = FakeHost()
    plugin = Plain(script)
    volume_type = VolumeType(plugin, ORIGIN, [])
    request = Volume(plugin, None).mount_request(host)
    assert volume_type.call("mount", request, host) == Mounted()
    script.fail("mount", OperationError("refused"))
    with pytest.raises(OperationError, match="refused"):
        volume_type.call("mount", request, host)


class Silent(VolumePlugin[None]):
    """Returns nothing."""

    name = "example.com/silent"
    handles = (Handles("silent"),)

    def mount(self, request: Mount[None], host: Host) -> Mounted:
        del request, host
        return None  # type: ignore[return-value]


def test_what_a_type_did_that_returns_nothing_is_uncertain() -> None:
    host = FakeHost()
    request = Volume(Silent(), None).mount_request(host)
    with pytest.raises(UncertainError, match=r"example\.com/silent: mount gave None instead of Mounted"):
        VolumeType(Silent(), ORIGIN, []).call("mount", request, host)


def test_an_operation_that_a_type_does_not_have_is_an_error_of_its_package() -> None:
    with pytest.raises(PluginError, match=r"example\.com/silent: test 0 \(test\) has no attach\(\)"):
        VolumeType(Silent(), ORIGIN, []).call("attach", None, FakeHost())
