"""What a Pod's own fields and its containers' resources are as text, for volumes and environment variables. Pure.

Source of the formats: kubelet's `fieldpath` and `resource` helpers (`FormatMap`, `ExtractFieldPathAsString`,
`ExtractContainerResourceValue`), which scripts in images rely on byte by byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from volmgr.errors import SpecError
from volmgr.model.file_paths import clean_paths
from volmgr.model.objects import Node
from volmgr.model.payload import PayloadFile, mode_of
from volmgr.model.pod import Container, FieldRef, Pod, ResourceFieldRef, ResourceRequirements
from volmgr.model.quantity import Quantity

Amounts = Mapping[str, Quantity]
"""Quantities by resource name (`cpu`, `memory`, `ephemeral-storage`)."""

CPU = "cpu"
_PLAIN = (CPU, "memory", "ephemeral-storage")
_HUGE_PAGES = "hugepages-"
_ZERO, _ONE, _MILLI = Quantity.of(0), Quantity.of(1), Quantity.parse("1m")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]", re.DOTALL)
_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_BEFORE_SLASH, _AFTER_SLASH = 253, 63
_PRINTABLE = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
_QUOTED = {**_PRINTABLE, '"': r"\"", "\\": r"\\"}
_DELETE, _BASIC_PLANE = 0x7F, 0xFFFF

_OF_POD: Mapping[str, Callable[[Pod], str]] = MappingProxyType(
    {
        "metadata.name": lambda pod: pod.metadata.name,
        "metadata.namespace": lambda pod: pod.metadata.namespace,
        "metadata.uid": lambda pod: pod.uid,
    }
)
_MAPS: Mapping[str, Callable[[Pod], Mapping[str, str]]] = MappingProxyType(
    {
        "labels": lambda pod: pod.metadata.labels,
        "annotations": lambda pod: pod.metadata.annotations,
    }
)
_UNKNOWN = frozenset({"status.podIP", "status.podIPs", "status.hostIP", "status.hostIPs"})
_SUBSCRIPTS = ("metadata.labels['KEY']", "metadata.annotations['KEY']")
FILE_FIELDS = (*_OF_POD, "metadata.labels", "metadata.annotations", *_SUBSCRIPTS)
"""The fields that a file of a volume may show."""
VARIABLE_FIELDS = (*_OF_POD, *_SUBSCRIPTS, "spec.nodeName", "spec.serviceAccountName")
"""The fields that an environment variable may have here; the addresses below `status` are unknown without a runtime."""
RESOURCES = tuple(f"{side}.{name}" for side in ("limits", "requests") for name in (*_PLAIN, "hugepages-SIZE"))
"""What a resourceFieldRef may name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DownwardFile:
    """One entry of `items`: the file at `path` shows a field of the Pod or a resource of a container."""

    path: str
    field_ref: FieldRef | None = None
    resource_field_ref: ResourceFieldRef | None = None
    mode: int | None = None


def downward_files(
    items: Iterable[DownwardFile], pod: Pod, available: Amounts, default_mode: int | None
) -> dict[str, PayloadFile]:
    """Give the files of `items`; raises SpecError with what is wrong with each. `available`: see `allocatable`."""
    default = mode_of(default_mode)
    files: dict[str, PayloadFile] = {}
    problems: list[str] = []
    for item in items:
        try:
            text = _shown(item, pod, available)
            mode = mode_of(item.mode, default, f"items[{item.path}].mode")
        except SpecError as error:
            problems.append(f"{item.path}: {error}")
        else:
            files[item.path] = PayloadFile(data=text.encode(), mode=mode)
    if problems:
        raise SpecError(", and ".join(problems))
    return files


def check_downward(items: Sequence[DownwardFile], pod: Pod | None, default_mode: int | None) -> None:
    """Raise SpecError for what of `items` cannot be shown of a Pod, whatever the node has."""
    if pod is not None:
        downward_files(items, pod, {}, default_mode)
    clean_paths(dict.fromkeys(item.path for item in items))


def _shown(item: DownwardFile, pod: Pod, available: Amounts) -> str:
    if item.field_ref is not None and item.resource_field_ref is None:
        return file_field(item.field_ref, pod)
    if item.resource_field_ref is not None and item.field_ref is None:
        return resource_field(item.resource_field_ref, pod, available)
    raise SpecError("exactly one of fieldRef and resourceFieldRef is needed; keep or write one")


def file_field(ref: FieldRef, pod: Pod) -> str:
    """Give the text of a field for a file of a volume; raises SpecError that names the field and the allowed ones.

    Labels and annotations are one line each, sorted, without a line end after the last.
    """
    name = ref.field_path.removeprefix("metadata.")
    if name in _MAPS and name != ref.field_path:
        return formatted(_MAPS[name](pod))
    return _single(ref, pod, FILE_FIELDS)


def variable_field(ref: FieldRef, pod: Pod, node_name: str) -> str:
    """Give the text of a field for an environment variable; raises SpecError as `file_field` does."""
    match ref.field_path:
        case "spec.nodeName":
            return pod.spec.node_name or node_name
        case "spec.serviceAccountName":
            return pod.spec.service_account_name
        case path if path in _UNKNOWN:
            message = (
                f"{path} is not known here: whoever runs the containers gives the Pod its addresses;"
                f" use one of {', '.join(VARIABLE_FIELDS)}"
            )
            raise SpecError(message)
        case _:
            return _single(ref, pod, VARIABLE_FIELDS)


def _single(ref: FieldRef, pod: Pod, allowed: tuple[str, ...]) -> str:
    path = ref.field_path
    if path in _OF_POD:
        return _OF_POD[path](pod)
    match = _SUBSCRIPT.fullmatch(path)
    if match is None:
        message = f"fieldPath {path!r} is no field that can be shown here; use one of {', '.join(allowed)}"
        raise SpecError(message)
    kind, key = match.groups()
    if not _is_key(key.lower() if kind == "annotations" else key):
        message = f"fieldPath {path!r}: {key!r} is no key of {kind}; write one such as example.com/name"
        raise SpecError(message)
    return _MAPS[kind](pod).get(key, "")


def _is_key(key: str) -> bool:
    before, slash, after = key.rpartition("/")
    return bool(_KEY.fullmatch(key)) and len(after) <= _AFTER_SLASH and len(before) <= _BEFORE_SLASH * bool(slash)


def formatted(entries: Mapping[str, str]) -> str:
    """Give `key="value"` lines, sorted by key."""
    return "\n".join(f"{key}={quoted(value)}" for key, value in sorted(entries.items()))


def quoted(text: str) -> str:
    """Quote text as Go's `%q` does."""
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if character in _QUOTED:
        return _QUOTED[character]
    code = ord(character)
    if character.isprintable():
        return character
    if character < " " or code == _DELETE:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= _BASIC_PLANE else f"\\U{code:08x}"


def allocatable(node: Node | None, machine: Amounts) -> Amounts:
    """Give what containers may use of the node: what its Node object says, and the machine's own for the rest."""
    return {**machine, **(node.allocatable if node else {})}


def resource_field(ref: ResourceFieldRef, pod: Pod, available: Amounts, container: str = "") -> str:
    """Give a limit or request in units of the divisor, rounded up; raises SpecError that names what is wrong.

    `available` (see `allocatable`) stands in for a limit that is absent. `container` is the one whose environment
    it is for; a volume has none, and must name it.
    """
    name = ref.container_name or container
    found = _container(pod, name, ref)
    side, _, resource = ref.resource.partition(".")
    if side not in {"limits", "requests"} or not (resource in _PLAIN or resource.startswith(_HUGE_PAGES)):
        message = f"resource {ref.resource!r} of container {name!r} cannot be shown; use one of {', '.join(RESOURCES)}"
        raise SpecError(message)
    asked = found.resources
    amount = _limit(asked, resource, pod, available) if side == "limits" else _request(asked, resource)
    return str(_in_units(amount, ref.divisor or _ZERO, _MILLI if resource == CPU else _ONE))


def _container(pod: Pod, name: str, ref: ResourceFieldRef) -> Container:
    known = (*pod.spec.containers, *pod.spec.init_containers)
    for container in known:
        if name and container.name == name:
            return container
    names = ", ".join(container.name for container in known)
    problem = f"no container is named {name!r}" if name else "containerName is missing"
    message = f"resourceFieldRef {ref.resource!r}: {problem}; name one of {names}"
    raise SpecError(message)


def _limit(asked: ResourceRequirements, resource: str, pod: Pod, available: Amounts) -> Quantity:
    """Give a limit; where there is none, the Pod's, else the node's (huge pages have no such default)."""
    own = asked.limits.get(resource, _ZERO)
    if own.value or resource not in _PLAIN:
        return own
    node, whole = available.get(resource, _ZERO), pod.spec.resources.limits.get(resource, _ZERO)
    return min(node, whole) if whole.value and node.value else whole if whole.value else node


def _request(asked: ResourceRequirements, resource: str) -> Quantity:
    """Give a request; one that is absent is the limit, as an API server writes into every Pod."""
    return asked.requests.get(resource, asked.limits.get(resource, _ZERO))


def _in_units(amount: Quantity, divisor: Quantity, precision: Quantity) -> int:
    """Divide as kubelet does: both sides first rounded up to its precision, milli for cpu and whole for the rest."""
    whole, unit = (_steps(one, precision) for one in (amount, divisor if divisor.value > 0 else _ONE))
    return -(-whole // unit)


def _steps(amount: Quantity, precision: Quantity) -> int:
    steps = amount.value / precision.value
    return -(-steps.numerator // steps.denominator)
