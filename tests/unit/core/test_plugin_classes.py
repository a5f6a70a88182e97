"""What a volume-plugin class may look like: a wrong one is refused where it is defined, with what to write."""

from pathlib import Path
from typing import Any

import pytest

from volmgr.errors import PluginError
from volmgr.plugin import (
    Attach,
    Attachable,
    Attached,
    DeviceMountable,
    Handles,
    Host,
    Mount,
    Mounted,
    VolumePlugin,
    VolumeSpec,
)


def mount(_self: object, _request: object, _host: object) -> Mounted:
    return Mounted()


def define(**members: object) -> type[Any]:
    """Define a volume type with these members."""
    return type("Mine", (VolumePlugin,), {"name": "example.com/mine", "handles": (Handles("mine"),), **members})


def test_a_misspelt_method_is_refused_and_the_nearest_one_named() -> None:
    with pytest.raises(PluginError, match=r"Mine\.mout\(\) is no part of the plugin interface; did you mean mount"):
        define(mout=mount)


def test_an_unknown_method_is_refused_unless_it_is_private() -> None:
    with pytest.raises(PluginError, match=r"Mine\.zzz\(\) is no part .*; give it a leading underscore"):
        define(zzz=mount)
    define(_zzz=mount)


def test_an_unknown_method_of_another_base_class_is_refused_too() -> None:
    class Common:
        def mout(self, request: object, host: object) -> Mounted:
            del request, host
            return Mounted()

    with pytest.raises(PluginError, match=r"Mine\.mout\(\) is no part of the plugin interface"):
        type("Mine", (Common, VolumePlugin), {"name": "example.com/mine"})


def without_host(self: object, request: object) -> Mounted:
    raise AssertionError


def other_name(self: object, asked: object, host: object) -> Mounted:
    raise AssertionError


def with_default(self: object, request: object, host: object = None) -> Mounted:
    raise AssertionError


def starred(self: object, *request: object, host: object) -> Mounted:
    raise AssertionError


def one_more(self: object, request: object, host: object, more: object) -> Mounted:
    raise AssertionError


@pytest.mark.parametrize("method", [without_host, other_name, with_default, starred, one_more])
def test_a_signature_that_is_not_exactly_the_hook_s_is_refused(method: object) -> None:
    with pytest.raises(PluginError, match=r"Mine\.mount\(.*\) must have the parameters \(self, request, host\)"):
        define(mount=method)


@pytest.mark.parametrize("kind", [staticmethod, classmethod, property])
def test_a_method_must_be_a_plain_one(kind: Any) -> None:  # noqa: ANN401 - a decorator
    with pytest.raises(PluginError, match=r"Mine\.mount must be a plain method"):
        define(mount=kind(mount))


@pytest.mark.parametrize("name", ["", "two words", "a/b/c", "example.com/", "../up"])
def test_a_name_must_be_qualified(name: str) -> None:
    with pytest.raises(PluginError, match=r"is not a qualified name; write one such as example\.com/disk"):
        define(name=name)


def attach(self: object, request: object, host: object) -> Attached:
    raise AssertionError


def test_an_operation_belongs_to_its_mixin() -> None:
    with pytest.raises(PluginError, match=r"Mine\.attach\(\) belongs to Attachable; derive the class from it too"):
        define(attach=attach)


def test_what_a_volume_needs_follows_from_the_mixins() -> None:
    class Disk(VolumePlugin[None], Attachable[None], DeviceMountable[None]):
        name = "example.com/disk"
        handles = (Handles("disk"),)

        def attach(self, request: Attach[None], host: Host) -> Attached:
            raise NotImplementedError

        def device_target(self, spec: VolumeSpec[None], host: Host) -> Path:
            raise NotImplementedError

        def mount(self, request: Mount[None], host: Host) -> Mounted:
            raise NotImplementedError

    facets = Disk().facets(VolumeSpec(name="v", type="disk", source=None), {})
    assert (facets.attach, facets.device, facets.block, facets.expand) == (True, True, False, False)


def test_two_objects_of_one_class_are_different_plugins() -> None:
    cls = define(mount=_proper_mount)
    assert cls() != cls()


def _proper_mount(self: object, request: object, host: object) -> Mounted:
    raise AssertionError
