"""What a Pod says of itself, as files and environment variables show it."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volmgr.errors import SpecError
from volmgr.model.downward import allocatable, file_field, formatted, quoted, resource_field, variable_field
from volmgr.model.meta import ObjectMeta
from volmgr.model.objects import Node
from volmgr.model.pod import Container, FieldRef, Pod, PodSpec, ResourceFieldRef, ResourceRequirements
from volmgr.model.quantity import Quantity

MACHINE = {"cpu": Quantity.parse("4"), "memory": Quantity.parse("8Gi"), "ephemeral-storage": Quantity.parse("100Gi")}


def amounts(**texts: str) -> dict[str, Quantity]:
    return {name.replace("_", "-"): Quantity.parse(text) for name, text in texts.items()}


def pod_of(resources: ResourceRequirements | None = None, whole: ResourceRequirements | None = None) -> Pod:
    container = Container(name="main", resources=resources or ResourceRequirements())
    return Pod(
        metadata=ObjectMeta(
            name="web",
            namespace="shop",
            uid="u-1",
            labels={"b": "2", "a": "1"},
            annotations={"example.com/Note": 'two\nlines and "quotes"'},
        ),
        spec=PodSpec(
            containers=(container,),
            init_containers=(Container(name="first"),),
            resources=whole or ResourceRequirements(),
            service_account_name="seller",
        ),
    )


def resource(path: str, divisor: str = "0", **more: ResourceRequirements) -> str:
    ref = ResourceFieldRef(resource=path, container_name="main", divisor=Quantity.parse(divisor))
    return resource_field(ref, pod_of(**more), MACHINE)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("metadata.name", "web"),
        ("metadata.namespace", "shop"),
        ("metadata.uid", "u-1"),
        ("metadata.labels", 'a="1"\nb="2"'),
        ("metadata.annotations", r'example.com/Note="two\nlines and \"quotes\""'),
        ("metadata.labels['a']", "1"),
        ("metadata.labels['absent']", ""),
        ("metadata.annotations['example.com/Note']", 'two\nlines and "quotes"'),
    ],
)
def test_a_file_shows_a_field_as_kubelet_writes_it(path: str, text: str) -> None:
    assert file_field(FieldRef(field_path=path), pod_of()) == text


@pytest.mark.parametrize("path", ["spec.nodeName", "status.podIP", "metadata", "labels", "metadata.labels[a]", ""])
def test_a_field_that_no_file_shows_is_named_with_those_it_may_be(path: str) -> None:
    with pytest.raises(SpecError, match=r"metadata\.uid, metadata\.labels, metadata\.annotations") as refused:
        file_field(FieldRef(field_path=path), pod_of())
    assert repr(path) in str(refused.value)


@pytest.mark.parametrize("key", ["", "-a", "a b", "a/b/c", "/a", "x" * 64, f"{'x' * 254}/a", "Upper.example/a", "a\n"])
def test_a_subscript_that_can_be_no_key_is_refused(key: str) -> None:
    with pytest.raises(SpecError, match=r"is no key of labels"):
        file_field(FieldRef(field_path=f"metadata.labels['{key}']"), pod_of())


@pytest.mark.parametrize(
    ("path", "text"), [("spec.nodeName", "n1"), ("spec.serviceAccountName", "seller"), ("metadata.name", "web")]
)
def test_a_variable_may_also_name_the_node_and_the_service_account(path: str, text: str) -> None:
    assert variable_field(FieldRef(field_path=path), pod_of(), "n1") == text


@pytest.mark.parametrize("path", ["status.podIP", "status.podIPs", "status.hostIP", "status.hostIPs"])
def test_an_address_that_is_unknown_here_is_an_error_that_names_it(path: str) -> None:
    with pytest.raises(SpecError, match=rf"^{path} is not known here"):
        variable_field(FieldRef(field_path=path), pod_of(), "n1")


def test_a_variable_shows_no_whole_map() -> None:
    with pytest.raises(SpecError, match=r"'metadata\.labels' is no field that can be shown here"):
        variable_field(FieldRef(field_path="metadata.labels"), pod_of(), "n1")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ä 世", '"plain ä 世"'),
        ('a"b\\c', r'"a\"b\\c"'),
        ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        ("\x00\x1f\x7f", r'"\x00\x1f\x7f"'),
        ("\x80\u200b\u00a0\u2028", r'"\u0080\u200b\u00a0\u2028"'),
        ("\U000e0001", r'"\U000e0001"'),
    ],
)
def test_values_are_quoted_as_go_quotes_them(text: str, shown: str) -> None:
    assert quoted(text) == shown


@pytest.mark.parametrize(
    ("path", "divisor", "text"),
    [
        ("limits.cpu", "1m", "1500"),
        ("limits.cpu", "0", "2"),
        ("requests.cpu", "1m", "250"),
        ("limits.memory", "0", "100000001"),
        ("limits.memory", "1Mi", "96"),
        ("requests.memory", "1Mi", "96"),
        ("limits.ephemeral-storage", "1Gi", "100"),
        ("requests.ephemeral-storage", "0", "0"),
        ("limits.hugepages-2Mi", "2Mi", "4"),
        ("limits.hugepages-1Gi", "0", "0"),
    ],
)
def test_resources_are_given_in_units_of_the_divisor_rounded_up(path: str, divisor: str, text: str) -> None:
    limits = amounts(cpu="1.5", memory="100000001", hugepages_2Mi="8Mi")
    asked = ResourceRequirements(limits=limits, requests=amounts(cpu="250m"))
    assert resource(path, divisor, resources=asked) == text


def test_an_absent_limit_is_what_the_node_has() -> None:
    node = Node(metadata=ObjectMeta(name="n"), allocatable=amounts(memory="3Gi"))
    ref = ResourceFieldRef(resource="limits.memory", container_name="main")
    assert resource_field(ref, pod_of(), allocatable(node, MACHINE)) == str(3 << 30)
    assert resource("limits.cpu") == "4"


def test_an_absent_limit_is_at_most_that_of_the_whole_pod() -> None:
    assert resource("limits.cpu", "1m", whole=ResourceRequirements(limits=amounts(cpu="500m"))) == "500"
    assert resource("limits.cpu", "1m", whole=ResourceRequirements(limits=amounts(cpu="64"))) == "4000"


def test_an_init_container_may_be_named_and_a_variable_means_its_own() -> None:
    assert resource_field(ResourceFieldRef(resource="limits.cpu", container_name="first"), pod_of(), MACHINE) == "4"
    assert resource_field(ResourceFieldRef(resource="limits.cpu"), pod_of(), MACHINE, "main") == "4"


@pytest.mark.parametrize(
    ("ref", "problem"),
    [
        (ResourceFieldRef(resource="limits.cpu"), r"containerName is missing; name one of main, first"),
        (ResourceFieldRef(resource="limits.cpu", container_name="x"), r"no container is named 'x'"),
        (ResourceFieldRef(resource="limits.gpu", container_name="main"), r"'limits\.gpu' of container 'main'"),
        (ResourceFieldRef(resource="cpu", container_name="main"), r"use one of limits\.cpu, limits\.memory"),
    ],
)
def test_a_resource_that_cannot_be_shown_says_what_can(ref: ResourceFieldRef, problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        resource_field(ref, pod_of(), MACHINE)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_quoted_text_is_one_printable_line_that_says_all_of_it(text: str) -> None:
    assert quoted(text).isprintable()
    assert ast.literal_eval(quoted(text)) == text  # Python reads these escapes as Go does


@given(st.dictionaries(st.from_regex(r"[a-z]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True), st.text(max_size=20)))
def test_a_map_has_one_line_for_each_entry_sorted(entries: dict[str, str]) -> None:
    lines = formatted(entries).split("\n") if entries else []
    assert [line.partition("=")[0] for line in lines] == sorted(entries)
