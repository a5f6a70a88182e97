"""What `$(NAME)` in a subPathExpr stands for: the environment of its container, as far as it can be known here. Pure.

Source: `third_party/forked/golang/expansion` and `makeEnvironment` of kubelet 1.37. Only the variables that an
expression needs are looked up.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from volmgr.errors import OperationError, SpecError
from volmgr.model.downward import Amounts, resource_field, variable_field
from volmgr.model.meta import ObjectRef, absent
from volmgr.model.objects import ConfigMap, Object, Secret

if TYPE_CHECKING:
    from volmgr.model.pod import Container, EnvVar, KeyRef, Pod


@dataclass(frozen=True, slots=True)
class Text:
    """A text, and whether a Secret's value is part of it: then it is shown to nobody."""

    text: str = field(repr=False)
    secret: bool = False


Lookup = Callable[[str], Text | None]
_Outcome = Text | SpecError | OperationError

LONGEST = 4096
"""Characters that an expression may stand for: as many bytes as Linux takes for a path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What an environment is made from beside the Pod: other objects, and what the node has."""

    get: Callable[[ObjectRef], Object | None]
    amounts: Amounts
    node_name: str = ""
    awaited: Callable[[ObjectRef], str] = lambda _ref: ""
    """Says why it is not known whether there is such an object; empty when it is."""
    absence: Callable[[ObjectRef], str] = lambda _ref: ""
    """Says who would have an object that is missing; empty: the manifests would."""


class Environment:
    """The environment variables of one container, each looked up when it is asked for."""

    def __init__(self, pod: Pod, container: Container, surroundings: Surroundings) -> None:
        """Look nothing up yet."""
        self._pod = pod
        self._container = container
        self._around = surroundings

    def expand(self, expression: str) -> Text:
        """Put values for the variables of an expression.

        Raises SpecError for a variable that there is not or that nobody can know here, or for what is too long,
        OperationError for a variable whose object is missing.
        """
        values: dict[str, _Outcome] = {}
        for variable in _needed(self._container, expression):
            outcome = self._outcome(variable, values)
            if outcome is not None:  # an optional one without a value changes nothing
                values[variable.name] = outcome
        return _expand(expression, lambda name: self._known(name, values))

    def _known(self, name: str, values: Mapping[str, _Outcome]) -> Text:
        found = _given(name, values) or self._from_objects(name)
        if found is None:
            raise _unknown(self._container, name)
        return found

    def _outcome(self, variable: EnvVar, values: Mapping[str, _Outcome]) -> _Outcome | None:
        """Give the value of a variable, or what is wrong with it: that matters only where it is used."""
        try:
            return self._value(variable, values)
        except (SpecError, OperationError) as error:
            return error

    def _value(self, variable: EnvVar, values: Mapping[str, _Outcome]) -> Text | None:
        source = variable.value_from
        if variable.value or source is None:  # a literal sees the variables before it, and is left as it is else
            return _expand(variable.value, lambda name: _given(name, values))
        with _naming(variable, self._container):
            if source.field_ref is not None:
                return Text(variable_field(source.field_ref, self._pod, self._around.node_name))
            if source.resource_field_ref is not None:
                ref = source.resource_field_ref
                return Text(resource_field(ref, self._pod, self._around.amounts, self._container.name))
            if source.config_map_key_ref is not None:
                return self._key("ConfigMap", source.config_map_key_ref)
            if source.secret_key_ref is not None:
                return self._key("Secret", source.secret_key_ref)
        message = f"variable {variable.name} of container {self._container.name}: its valueFrom names no source"
        raise SpecError(message)

    def _key(self, kind: str, ref: KeyRef) -> Text | None:
        found = self._object(kind, ref.name, optional=ref.optional)
        if found is None:
            return None
        value = _values(found).get(ref.key)
        if value is None and not ref.optional:
            message = f"{kind} {self._pod.metadata.namespace}/{ref.name} has no key {ref.key!r}"
            raise OperationError(message)
        return value

    def _from_objects(self, name: str) -> Text | None:
        """Give the value of the last ConfigMap or Secret that has one."""
        for source in reversed(self._container.env_from):
            for kind, ref in (("ConfigMap", source.config_map_ref), ("Secret", source.secret_ref)):
                if ref is None or not name.startswith(source.prefix) or not _is_name(name):
                    continue
                found = self._object(kind, ref.name, optional=ref.optional)
                value = _values(found).get(name.removeprefix(source.prefix)) if found else None
                if value is not None:
                    return value
        return None

    def _object(self, kind: str, name: str, *, optional: bool) -> ConfigMap | Secret | None:
        ref = ObjectRef(kind, self._pod.metadata.namespace, name)
        found = self._around.get(ref)
        if isinstance(found, ConfigMap | Secret):
            return found
        if why := self._around.awaited(ref):
            raise OperationError(f"it waits for {ref}: {why}")
        if optional:
            return None
        raise OperationError(absent(str(ref), self._around.absence(ref)))


def check(pod: Pod, container: Container, expression: str) -> None:
    """Raise SpecError for an expression that has no value whatever objects there are."""
    variables = _needed(container, expression)
    if not container.env_from:  # else any name may be a key of its objects
        for name in names_in(expression):
            if all(variable.name != name for variable in variables):
                raise _unknown(container, name)
    for variable in variables:
        source = variable.value_from
        if source is not None and not variable.value:
            with _naming(variable, container):
                if source.field_ref is not None:
                    variable_field(source.field_ref, pod, "")
                elif source.resource_field_ref is not None:
                    resource_field(source.resource_field_ref, pod, {}, container.name)


def _unknown(container: Container, name: str) -> SpecError:
    message = (
        f"container {container.name} has no variable {name}, or an optional one without a value;"
        " add it to its env, or write $$(…) for the text itself"
    )
    return SpecError(message)


@contextmanager
def _naming(variable: EnvVar, container: Container) -> Generator[None]:
    """Let errors say of which variable they are."""
    try:
        yield
    except (SpecError, OperationError) as error:
        raise type(error)(f"variable {variable.name} of container {container.name}: {error}") from error


def references(pod: Pod) -> frozenset[ObjectRef]:
    """Name the objects that the subPathExprs of a Pod may need."""
    return frozenset(
        ref
        for container in pod.all_containers()
        for mount in container.volume_mounts
        if mount.sub_path_expr
        for ref in _objects(pod.metadata.namespace, container, mount.sub_path_expr)
    )


def _objects(namespace: str, container: Container, expression: str) -> Iterator[ObjectRef]:
    for variable in _needed(container, expression):
        source = variable.value_from
        for kind, key in (
            ("ConfigMap", source.config_map_key_ref if source else None),
            ("Secret", source.secret_key_ref if source else None),
        ):
            if key is not None:
                yield ObjectRef(kind, namespace, key.name)
    names = names_in(expression)
    for origin in container.env_from:
        for kind, whole in (("ConfigMap", origin.config_map_ref), ("Secret", origin.secret_ref)):
            if whole is not None and any(name.startswith(origin.prefix) for name in names):
                yield ObjectRef(kind, namespace, whole.name)


def _needed(container: Container, expression: str) -> list[EnvVar]:
    """Give the variables that an expression may need, those of others too, in order, each once."""
    wanted = set(names_in(expression))
    found: list[EnvVar] = []
    for variable in reversed(container.env):
        if variable.name in wanted:
            found.append(variable)
            wanted.update(names_in(variable.value))
    return found[::-1]


def names_in(expression: str) -> tuple[str, ...]:
    """Give the names of the variables in an expression, in order."""
    return tuple(name for literal, name in _parse(expression) if not literal)


def _given(name: str, values: Mapping[str, _Outcome]) -> Text | None:
    found = values.get(name)
    if isinstance(found, SpecError | OperationError):
        raise found
    return found


def _expand(expression: str, lookup: Lookup) -> Text:
    """Put in the values that there are; a variable without one stays as it is written."""
    parts: list[str] = []
    secret = False
    length = 0
    for literal, name in _parse(expression):
        value = None if literal else lookup(name)
        if value is not None:
            secret = secret or value.secret
        parts.append(literal or (f"$({name})" if value is None else value.text))
        length += len(parts[-1])
        if length > LONGEST:  # and variables that double each other would take all memory
            message = f"what stands for the variables is longer than {LONGEST} characters, and no path may be that long"
            raise SpecError(message)
    return Text("".join(parts), secret)


def _parse(expression: str) -> Iterator[tuple[str, str]]:
    """Give literals and names in turn, the other being empty; `$$` is a dollar, `$(` without end itself."""
    position, last = 0, expression.rfind(")")
    while (dollar := expression.find("$", position)) >= 0:
        if dollar > position:
            yield expression[position:dollar], ""
        following = expression[dollar + 1 : dollar + 2]
        end = expression.find(")", dollar) if following == "(" and dollar < last else -1
        if end >= 0:
            yield "", expression[dollar + 2 : end]
            position = end + 1
        elif following == "$":
            yield "$", ""
            position = dollar + 2
        else:
            yield f"${following}", ""
            position = dollar + 1 + len(following)
    if position < len(expression):
        yield expression[position:], ""


def _values(found: ConfigMap | Secret) -> dict[str, Text]:
    """Give what an object has for an environment: binaryData is none of it."""
    if isinstance(found, Secret):
        return {key: Text(os.fsdecode(value), secret=True) for key, value in found.data.items()}
    return {key: Text(value) for key, value in found.data.items()}


def _is_name(name: str) -> bool:
    """Say whether an environment may have such a variable; others are passed over in envFrom."""
    return bool(name) and all(" " <= character <= "~" and character != "=" for character in name)
