"""Selectors: do these labels, or does this node, match what an object asks for. Pure.

Source of the format: `LabelSelector` of apimachinery and `NodeSelector` of the core API. A requirement that is not
understood matches nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from volmgr.model.objects import Node


def matches_labels(selector: Mapping[str, object] | None, labels: Mapping[str, str]) -> bool:
    """Say whether labels match a LabelSelector; None and an empty one match everything."""
    if selector is None:
        return True
    wanted = mapping(selector.get("matchLabels"))
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _fits(mapping(item), labels) for item in items(selector.get("matchExpressions"))
    )


def demanded(selector: Mapping[str, object] | None) -> list[tuple[tuple[str, str], ...]]:
    """Give labels of which a LabelSelector demands one: what has none of one of these tuples does not match."""
    given = selector or {}
    pairs = mapping(given.get("matchLabels")).items()
    found: list[tuple[tuple[str, str], ...]] = [((key, value),) for key, value in pairs if isinstance(value, str)]
    for item in map(mapping, items(given.get("matchExpressions"))):
        if item.get("operator") == "In":
            values = dict.fromkeys(map(str, items(item.get("values"))))
            found.append(tuple((str(item.get("key", "")), value) for value in values))
    return found


def matches_node(affinity: Mapping[str, object] | None, node: Node) -> bool:
    """Say whether a node matches a `nodeAffinity`: any of its terms; none demanded matches every node."""
    required = mapping(affinity.get("required") if affinity is not None else None)
    if "nodeSelectorTerms" not in required:
        return True
    return any(_term_fits(mapping(term), node) for term in items(required["nodeSelectorTerms"]))


def mapping(value: object) -> Mapping[str, object]:
    """Give a mapping as it is, anything else as an empty one."""
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def items(value: object) -> Sequence[object]:
    """Give a list as it is, anything else as an empty one."""
    return cast("Sequence[object]", value) if isinstance(value, list) else ()


def _term_fits(term: Mapping[str, object], node: Node) -> bool:
    expressions = items(term.get("matchExpressions"))
    fields = items(term.get("matchFields"))
    if not expressions and not fields:
        return False
    named = {"metadata.name": node.metadata.name}
    return all(_fits(mapping(item), node.metadata.labels) for item in expressions) and all(
        _fits(mapping(item), named) for item in fields
    )


def _fits(requirement: Mapping[str, object], values: Mapping[str, str]) -> bool:
    given = values.get(str(requirement.get("key", "")))
    texts = [str(value) for value in items(requirement.get("values"))]
    match requirement.get("operator"):
        case "In":
            return given in texts
        case "NotIn":
            return given not in texts
        case "Exists":
            return given is not None
        case "DoesNotExist":
            return given is None
        case "Gt" | "Lt" as operator if given is not None and texts:
            return _compare(given, texts[0], greater=operator == "Gt")
        case _:
            return False


def _compare(given: str, bound: str, *, greater: bool) -> bool:
    try:
        return int(given) > int(bound) if greater else int(given) < int(bound)
    except ValueError:
        return False
