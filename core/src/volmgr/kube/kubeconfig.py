"""What a kubeconfig names, checked before the package `kubernetes` loads it, so that complaints say what to write."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import yaml

from volmgr.errors import OperationError
from volmgr.kube.documents import items, mapping

_DATA = ("certificate-authority-data", "client-certificate-data", "client-key-data")
_FILES_OF_USER = ("tokenFile", "client-certificate", "client-key")
_FILE_OF_CLUSTER = "certificate-authority"

KILL_AFTER = 5.0
"""Seconds that a command for credentials has to end after SIGTERM."""


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """The part of a kubeconfig that its current context chooses; `files` are those that it names, and itself."""

    context: str
    server: str
    proxy: str
    files: tuple[Path, ...]
    has_plugin: bool
    """Credentials come from a command (`exec`)."""
    content: Mapping[str, object] = field(repr=False)
    """All of the file."""

    def with_limit(self, seconds: float) -> dict[str, object]:
        """Give the content, in which commands are ended after so many seconds: the package waits for ever."""
        users = [_limited(each, seconds) for each in items(self.content.get("users"))]
        return {**self.content, "users": users}


def read_kubeconfig(path: Path) -> Kubeconfig:
    """Read it from disk; raises OperationError that names the file, the field and the remedy."""
    if ":" in str(path):
        raise OperationError(f"cannot read kubeconfig {path}: a colon separates kubeconfigs; rename the file")
    try:
        text = path.read_text()
    except OSError as error:
        remedy = "name another by --kubeconfig, or say --in-cluster in a Pod"
        raise OperationError(f"cannot read kubeconfig {path}: {error.strerror}; {remedy}") from error
    except UnicodeDecodeError:
        raise OperationError(f"cannot read kubeconfig {path}: it is no text; write YAML") from None
    return _Reader(path).read(text)


def _limited(entry: object, seconds: float) -> object:
    """Let timeout(1) run the command of one user, which ends its children, too."""
    user = mapping(mapping(entry).get("user"))
    plugin = mapping(user.get("exec"))
    if not isinstance(command := plugin.get("command"), str):
        return entry
    arguments = cast("list[object]", plugin.get("args") or [])
    run = {**plugin, "command": "timeout", "args": ["-k", f"{KILL_AFTER:g}", f"{seconds:g}", command, *arguments]}
    return {**mapping(entry), "user": {**user, "exec": run}}


class _Reader:
    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, text: str) -> Kubeconfig:
        document = self._document(text)
        if not isinstance(document, dict):
            raise self._wrong("no mapping", "write one of kind Config")
        top = mapping(cast("object", document))
        choose = f"choose one by `kubectl config use-context NAME --kubeconfig {self._path}`"
        context = self._text(top, "current-context", "", choose)
        chosen = self._entry(top, "contexts", context)
        cluster_name = self._text(chosen, "cluster", f"contexts[name={context}].context.", "name one of clusters")
        cluster = self._entry(top, "clusters", cluster_name)
        place = f"clusters[name={cluster_name}].cluster."
        server = self._text(cluster, "server", place, "write the address of the API server")
        user_name = chosen.get("user")
        user: Mapping[str, object] = {}
        if isinstance(user_name, str) and user_name:
            user = self._entry(top, "users", user_name)
        self._check_data(place, cluster)
        self._check_data(f"users[name={user_name}].user.", user)
        named = (cluster.get(_FILE_OF_CLUSTER), *(user.get(each) for each in _FILES_OF_USER))
        files = tuple(self._path.parent / each for each in named if isinstance(each, str) and each)
        proxy = cluster.get("proxy-url")
        return Kubeconfig(
            context, server, proxy if isinstance(proxy, str) else "", (self._path, *files), "exec" in user, top
        )

    def _document(self, text: str) -> object:
        try:
            return cast("object", yaml.safe_load(text))
        except yaml.MarkedYAMLError as error:  # without the snippet that its text has: it may show a token
            line = f" in line {error.problem_mark.line + 1}" if error.problem_mark is not None else ""
            raise self._wrong(f"no YAML: {error.problem}{line}", "correct it") from None
        except yaml.YAMLError:
            raise self._wrong("no YAML", "correct it") from None

    def _entry(self, top: Mapping[str, object], plural: str, name: str) -> Mapping[str, object]:
        """Find what clusters, contexts or users have by a name; the mapping is called by the singular."""
        for entry in items(top.get(plural)):
            if entry.get("name") == name:
                return mapping(entry.get(plural.removesuffix("s")))
        raise self._wrong(f"{plural} has none named {name!r}", "add it, or name one that is there")

    def _text(self, part: Mapping[str, object], key: str, place: str, remedy: str) -> str:
        value = part.get(key)
        if isinstance(value, str) and value:
            return value
        raise self._wrong(f"{place}{key} is missing", remedy)

    def _check_data(self, place: str, part: Mapping[str, object]) -> None:
        for key in _DATA:
            try:
                b64decode(str(part.get(key, "")))
            except ValueError:
                raise self._wrong(f"{place}{key} is no base64", "write the PEM file in base64") from None

    def _wrong(self, problem: str, remedy: str) -> OperationError:
        return OperationError(f"cannot read kubeconfig {self._path}: {problem}; {remedy}")
