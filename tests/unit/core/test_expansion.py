"""subPathExpr: what its variables stand for, byte by byte as kubelet expands them."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volmgr.errors import OperationError, SpecError
from volmgr.model.expansion import Environment, Surroundings, Text, names_in, references
from volmgr.model.meta import ObjectMeta, ObjectRef
from volmgr.model.objects import ConfigMap, Object, Secret, ref_of
from volmgr.model.pod import (
    Container,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    FieldRef,
    KeyRef,
    LocalRef,
    Pod,
    PodSpec,
    ResourceFieldRef,
    ResourceRequirements,
    VolumeMount,
)
from volmgr.model.quantity import Quantity

SETTINGS = ConfigMap(metadata=ObjectMeta(name="settings"), data={"colour": "blue", "1st": "one", "a=b": "never"})
PASSWORDS = Secret(metadata=ObjectMeta(name="passwords"), data={"door": b"xyzzy", "colour": b"red"})
OBJECTS: Mapping[ObjectRef, Object] = {ref_of(SETTINGS): SETTINGS, ref_of(PASSWORDS): PASSWORDS}


def env(name: str, value: str = "", **source: object) -> EnvVar:
    return EnvVar(name=name, value=value, value_from=EnvVarSource(**source) if source else None)  # type: ignore[arg-type]


def container(*variables: EnvVar, env_from: tuple[EnvFromSource, ...] = (), expression: str = "") -> Container:
    mounts = (VolumeMount(name="v", mount_path="/v", sub_path_expr=expression),)
    limits = ResourceRequirements(limits={"memory": Quantity.parse("64Mi")})
    return Container(name="main", env=variables, env_from=env_from, volume_mounts=mounts, resources=limits)


def pod(of: Container) -> Pod:
    meta = ObjectMeta(name="web-0", uid="uid-1", labels={"tier": "front"})
    return Pod(metadata=meta, spec=PodSpec(containers=(of,)))


def expand(expression: str, *variables: EnvVar, env_from: tuple[EnvFromSource, ...] = ()) -> Text:
    of = container(*variables, env_from=env_from)
    around = Surroundings(get=OBJECTS.get, amounts={}, node_name="node-7")
    return Environment(pod(of), of, around).expand(expression)


@pytest.mark.parametrize(
    ("expression", "expanded"),
    [
        ("logs/$(A)", "logs/one"),
        ("$(A)$(B)", "onetwo"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$one"),
        ("$$$$(A)", "$$(A)"),
        ("$A", "$A"),
        ("a$", "a$"),
        ("$(A", "$(A"),
        ("$$", "$"),
        ("(A)", "(A)"),
        ("$(A)$", "one$"),
        ("", ""),
    ],
)
def test_variables_are_expanded_and_escapes_are_kept(expression: str, expanded: str) -> None:
    assert expand(expression, env("A", "one"), env("B", "two")).text == expanded


def test_a_literal_sees_the_variables_before_it_and_keeps_what_is_unknown_then() -> None:
    variables = (env("A", "$(B)"), env("B", "two"), env("C", "$(B)/$(A)/$$(B)"), env("B", "three"))

    assert expand("$(A)|$(B)|$(C)", *variables).text == "$(B)|three|two/$(B)/$(B)"


def test_fields_of_the_pod_and_resources_of_a_container_are_values() -> None:
    variables = (
        env("NAME", field_ref=FieldRef(field_path="metadata.name")),
        env("TIER", field_ref=FieldRef(field_path="metadata.labels['tier']")),
        env("NODE", field_ref=FieldRef(field_path="spec.nodeName")),
        env("MEMORY", resource_field_ref=ResourceFieldRef(resource="limits.memory", divisor=Quantity.parse("1Mi"))),
    )

    assert expand("$(NODE)/$(NAME)/$(TIER)/$(MEMORY)", *variables).text == "node-7/web-0/front/64"


def test_keys_of_config_maps_and_secrets_are_values_and_what_holds_a_secret_is_marked() -> None:
    variables = (
        env("COLOUR", config_map_key_ref=KeyRef(name="settings", key="colour")),
        env("DOOR", secret_key_ref=KeyRef(name="passwords", key="door")),
        env("BOTH", "$(COLOUR)-$(DOOR)"),
    )

    assert expand("$(COLOUR)", *variables) == Text("blue")
    assert expand("x/$(DOOR)", *variables) == Text("x/xyzzy", secret=True)
    assert expand("$(BOTH)", *variables) == Text("blue-xyzzy", secret=True)
    assert "xyzzy" not in repr(expand("$(DOOR)", *variables))


def test_whole_objects_are_an_environment_the_later_before_the_earlier_and_all_behind_env() -> None:
    settings = EnvFromSource(config_map_ref=LocalRef(name="settings"))
    prefixed = EnvFromSource(prefix="SET_", config_map_ref=LocalRef(name="settings"))
    passwords = EnvFromSource(secret_ref=LocalRef(name="passwords"))

    assert expand("$(colour)", env_from=(settings, passwords)).text == "red"
    assert expand("$(colour)", env_from=(passwords, settings)).text == "blue"
    assert expand("$(colour)", env("colour", "mine"), env_from=(settings,)).text == "mine"
    assert expand("$(SET_colour)/$(SET_1st)", env_from=(prefixed,)).text == "blue/one"
    with pytest.raises(SpecError, match="no variable a=b"):  # no environment can have it
        expand("$(a=b)", env_from=(settings,))


def test_a_variable_of_an_object_is_not_seen_by_a_literal() -> None:
    settings = EnvFromSource(config_map_ref=LocalRef(name="settings"))

    assert expand("$(A)", env("A", "$(colour)"), env_from=(settings,)).text == "$(colour)"


def test_an_unknown_variable_is_named() -> None:
    with pytest.raises(SpecError, match="container main has no variable POD_NAME"):
        expand("$(POD_NAME)", env("NAME", "x"))


def test_a_value_that_nobody_knows_here_is_an_error_that_names_variable_and_field() -> None:
    address = env("IP", field_ref=FieldRef(field_path="status.podIP"))

    with pytest.raises(SpecError, match=r"variable IP of container main: status\.podIP is not known here"):
        expand("logs/$(IP)", address)
    assert expand("logs/$(NAME)", address, env("NAME", "x")).text == "logs/x"  # nobody asks for it


def test_a_missing_object_or_key_is_named_unless_it_is_optional() -> None:
    missing = env("A", config_map_key_ref=KeyRef(name="nothing", key="k"))
    keyless = env("A", secret_key_ref=KeyRef(name="passwords", key="k"))
    optional = env("A", config_map_key_ref=KeyRef(name="nothing", key="k", optional=True))

    with pytest.raises(OperationError, match="ConfigMap default/nothing does not exist"):
        expand("$(A)", missing)
    with pytest.raises(OperationError, match="Secret default/passwords has no key 'k'"):
        expand("$(A)", keyless)
    with pytest.raises(OperationError, match="ConfigMap default/nothing does not exist"):
        expand("$(A)", env_from=(EnvFromSource(config_map_ref=LocalRef(name="nothing")),))
    with pytest.raises(SpecError, match="no variable A, or an optional one without a value"):
        expand("$(A)", optional, env_from=(EnvFromSource(config_map_ref=LocalRef(name="nothing", optional=True)),))
    assert expand("$(A)", env("A", "before"), optional).text == "before"


def test_the_objects_that_expressions_need_are_known_before_they_are_looked_up() -> None:
    variables = (
        env("DOOR", secret_key_ref=KeyRef(name="passwords", key="door")),
        env("UNUSED", config_map_key_ref=KeyRef(name="unused", key="k")),
        env("PATH", "$(DOOR)/x"),
    )
    settings = EnvFromSource(prefix="SET_", config_map_ref=LocalRef(name="settings"))

    def needed(expression: str) -> set[str]:
        of = container(*variables, env_from=(settings,), expression=expression)
        return {str(ref) for ref in references(pod(of))}

    assert needed("$(PATH)") == {"Secret default/passwords"}
    assert needed("$(SET_colour)") == {"ConfigMap default/settings"}
    assert needed("plain") == needed("$$(PATH)") == set()


@given(st.text(alphabet="$()AB/ ", max_size=12))
def test_every_expression_without_variables_of_its_own_keeps_its_length_but_for_escapes(expression: str) -> None:
    if names_in(expression):
        return
    doubled = expression.count("$") - expand(expression).text.count("$")
    assert len(expand(expression).text) == len(expression) - doubled
