"""Credentials for registries: from a Pod's imagePullSecrets and the node's own file, to one file of a client. Pure.

Sources of the formats: `kubernetes.io/dockerconfigjson` and `kubernetes.io/dockercfg` of Kubernetes' API, and
containers-auth.json(5). No error repeats what it is about.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable

from volmgr.plugin import OperationError, Secret
from volmgr_image.documents import Fields, child, read_object, text

_DOCKER_CONFIG = "kubernetes.io/dockerconfigjson"
_DOCKER_CFG = "kubernetes.io/dockercfg"
_OLD_PATHS = ("/v1", "/v2")


def authfile(node: bytes | None, node_path: str, secrets: Iterable[Secret]) -> bytes:
    """Give the content of a client's file of credentials; a later secret comes before an earlier one."""
    known: dict[str, dict[str, str]] = {}
    if node is not None:
        known |= _credentials(child(read_object(node, f"authfile {node_path}"), "auths"))
    for secret in secrets:
        known |= _credentials(_of_secret(secret))
    return json.dumps({"auths": known}).encode()


def _of_secret(secret: Secret) -> Fields:
    name = f"imagePullSecret {secret.metadata.namespace}/{secret.metadata.name}"
    if secret.type == _DOCKER_CONFIG:
        return child(_read(secret, ".dockerconfigjson", name), "auths")
    if secret.type == _DOCKER_CFG:
        return _read(secret, ".dockercfg", name)
    return {}  # kubelet passes over others, too


def _read(secret: Secret, key: str, name: str) -> Fields:
    data = secret.data.get(key)
    if data is None:
        raise OperationError(f"{name} has no key {key}; its type {secret.type} demands it")
    return read_object(data, f"{key} of {name}")


def _credentials(auths: Fields) -> dict[str, dict[str, str]]:
    return {_registry(name): entry for name in auths if (entry := _entry(child(auths, name)))}


def _entry(fields: Fields) -> dict[str, str]:
    """Give what clients read: a user and password by the form `auth`, or a token."""
    auth, token = text(fields, "auth"), text(fields, "identitytoken")
    if not auth and text(fields, "username"):
        auth = base64.b64encode(
            f"{text(fields, 'username')}:{text(fields, 'password')}".encode(errors="replace")
        ).decode()
    return {key: value for key, value in (("auth", auth), ("identitytoken", token)) if value}


def _registry(name: str) -> str:
    """Give a registry as clients look for it: old files have addresses of its interface."""
    name = name.removeprefix("https://").removeprefix("http://").rstrip("/")
    for path in _OLD_PATHS:
        name = name.removesuffix(path)
    return name
