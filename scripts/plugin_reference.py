"""Write, or with --check verify, docs/plugins/reference.md: all that `volmgr.plugin` offers, from its source.

Docstrings, signatures and fields are those of the code; chapters are in the order in which an author meets them.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import FunctionType
from typing import cast

from volmgr import hookspecs, plugin
from volmgr.errors import VolmgrError
from volmgr.host import interface
from volmgr.plugin import Host

PAGE = Path(__file__).resolve().parent.parent / "docs/plugins/reference.md"
HEAD = """\
# Reference of the plugin API

All that `volmgr.plugin` offers. Written by `scripts/plugin_reference.py` from the source: change that, not this page.
What stays the same over releases is said in [versions](versioning.md), what operations promise in
[the contract](contract.md).
"""
CLASSES = (
    "VolumePlugin",
    "Attachable",
    "DeviceMountable",
    "BlockMappable",
    "Expandable",
    "Measurable",
    "PayloadVolume",
    "Handles",
    "Where",
)
OPERATIONS = (
    "Attach",
    "Attached",
    "WaitForAttach",
    "Detach",
    "Detached",
    "MountDevice",
    "DeviceMounted",
    "UnmountDevice",
    "DeviceUnmounted",
    "Mount",
    "Mounted",
    "Notice",
    "Unmount",
    "Unmounted",
    "Expand",
    "Expanded",
    "Found",
    "Reconstructed",
    "FoundDevice",
    "Measure",
    "Measured",
    "Requirement",
)
VOLUMES = ("VolumeSpec", "VolumeMode", "Facets", "Applies", "Reference", "PersistentVolume")
DISKS = ("DiskVolume", "ConnectedDisk", "DiskPaths", "Sight", "ScsiAddress", "ScsiDisk", "MultipathMap")
SERVICES = ("Drivers", "Offers", "Service")
PROVISIONING = ("Provisioner", "Provision", "Provisioned", "DeleteVolume", "GrowVolume", "Grown")


def page() -> str:
    """Give the whole page."""
    offered = {name: getattr(plugin, name) for name in plugin.__all__}
    chapters: dict[str, list[object]] = {
        "The class": [offered[name] for name in CLASSES],
        "Requests and answers": [offered[name] for name in OPERATIONS],
        "What a volume is": [offered[name] for name in VOLUMES],
        "The host": [Host, *_services_of(Host)],
        "Disks that a network brings": [offered[name] for name in DISKS],
        "Errors": [value for value in offered.values() if inspect.isclass(value) and issubclass(value, VolmgrError)],
        "Packages with a service": [offered[name] for name in SERVICES],
        "Packages that make volumes for claims": [offered[name] for name in PROVISIONING],
    }
    told = {id(value) for values in chapters.values() for value in values}
    rest = [value for value in offered.values() if id(value) not in told]
    chapters["Objects, files and helpers"] = [value for value in rest if inspect.isclass(value)]
    parts = [HEAD, *(_chapter(title, classes) for title, classes in chapters.items())]
    functions = [_function(value) for value in rest if inspect.isfunction(value)]
    return "\n".join([*parts, "## Functions\n", *functions, _hooks()])


def _services_of(host: type) -> list[object]:
    """Give the classes of the host's services, also of those that are made of others."""
    named = [field.type for field in dataclasses.fields(host)]
    named += [inspect.signature(value.fget).return_annotation for value in vars(host).values() if _is_property(value)]
    return [found for name in named if inspect.isclass(found := getattr(interface, str(name), None))]


def _is_property(value: object) -> bool:
    return isinstance(value, property) and value.fget is not None


def _chapter(title: str, classes: list[object]) -> str:
    return "\n".join([f"## {title}\n", *(_class(cls) for cls in classes if inspect.isclass(cls))])


def _class(cls: type) -> str:
    lines = [f"### {cls.__name__}\n", *_bases(cls), f"{_text(cls)}\n"]
    if fields := list(_fields(cls)):
        lines += ["| field | |", "|---|---|", *fields, ""]
    lines += [_function(function) for function in _methods(cls)]
    return "\n".join(lines)


def _bases(cls: type) -> list[str]:
    bases = [base.__name__ for base in cls.__bases__ if base.__name__ in plugin.__all__]
    return [f"Is a {', '.join(f'`{base}`' for base in bases)}.\n"] if bases else []


def _fields(cls: type) -> Iterator[str]:
    """Give a row for each field, class attribute or member, with what is written below it in the source."""
    if issubclass(cls, Enum):
        yield from (f"| `{member.name} = {member.value!r}` | |" for member in cls)
        return
    bases: tuple[type[object], ...] = cls.__mro__
    own = [part for part in bases if part is cls or (part.__name__[0] == "_" and part.__module__.startswith("volmgr."))]
    for part in reversed(own):
        body = _body(part)
        for node, after in zip(body, [*body[1:], None], strict=True):
            if isinstance(node, ast.AnnAssign) and not ast.unparse(node.target).startswith("_"):
                yield f"| `{_declared(node)}` | {_literal(after)} |"


def _declared(node: ast.AnnAssign) -> str:
    """Give name, type and default of a field; a default that is made by a call is an empty one."""
    value = "" if node.value is None else f" = {ast.unparse(node.value)}"
    if isinstance(node.value, ast.Call):
        value = " = …"
    return f"{ast.unparse(node.target)}: {ast.unparse(node.annotation)}{value}".replace("|", "or")


def _literal(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return " ".join(node.value.value.split())
    return ""


def _body(cls: type) -> list[ast.stmt]:
    tree = ast.parse(Path(inspect.getfile(cls)).read_text())
    (found,) = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == cls.__name__]
    return found.body


def _methods(cls: type) -> list[object]:
    own = {name: value for name, value in vars(cls).items() if not name.startswith("__")}
    told = [value for name, value in own.items() if name[0] != "_" or _is_to_be_written(value)]
    return [value for value in told if inspect.isfunction(value) or _is_property(value)]


def _is_to_be_written(value: object) -> bool:
    """Say whether a derived class has to bring a method, whose name need not be public."""
    return inspect.isfunction(value) and "raise NotImplementedError" in inspect.getsource(value)


def _function(of: object) -> str:
    """Give an item for a function or method; a property has a type, and no parameters."""
    is_property = isinstance(of, property)
    function = cast("FunctionType", of.fget if isinstance(of, property) else of)
    signature = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(function)))
    signature = re.sub(r"<function \w+ at 0x\w+>|Ellipsis", "…", signature)
    signature = signature.replace("(self, ", "(").replace("(self)", "" if is_property else "()")
    shown = signature.replace(" -> ", ": ") if is_property else signature
    return f"- `{function.__name__}{shown}`  \n  {_text(function, indent='  ')}\n"


def _text(of: object, indent: str = "") -> str:
    """Give a docstring; a dataclass that has none is known by its fields."""
    text = inspect.getdoc(of) or ""
    return text.replace("\n", f"\n{indent}").replace(f"\n{indent}\n", "\n\n")


def _hooks() -> str:
    lines = ["## Hooks\n", "How they are called is said in [hooks](../reference/hooks.md).\n"]
    for group in (hookspecs.Registration, hookspecs.Operations):
        lines += [f"### {group.__name__}\n", f"{_text(group)}\n", *(_function(hook) for hook in _methods(group))]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Write the page, or say that it is old."""
    if arguments == ["--check"]:
        if PAGE.read_text() == page():
            return 0
        print(f"{PAGE} is not what the source says; run scripts/plugin_reference.py", file=sys.stderr)
        return 1
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
