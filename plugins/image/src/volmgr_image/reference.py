"""What `reference` of an image volume names: a layout, an archive, or an image in a registry. Pure.

Sources of the forms: containers-transports(5) for `oci:` and `oci-archive:`, the reference grammar of the OCI
distribution for names, and the defaults of `pullPolicy` in Kubernetes' API.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from volmgr.plugin import SpecError, path_problem

_FORMS = "write oci:DIR[:TAG], oci-archive:FILE[:TAG], or a name such as registry.example/app:1"
_HOST = r"(?:(?P<host>[A-Za-z0-9.-]+(?::[0-9]{1,5})?|\[[0-9a-fA-F:.]+\](?::[0-9]{1,5})?)/)?"
_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_NAME = re.compile(
    rf"{_HOST}(?P<path>{_PART}(?:/{_PART})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}))?",
    re.ASCII,
)
_POLICIES = ("Always", "IfNotPresent", "Never")


@dataclass(frozen=True, slots=True)
class Layout:
    """An OCI layout on this machine: a directory."""

    path: Path
    tag: str


@dataclass(frozen=True, slots=True)
class Archive:
    """An OCI layout on this machine: a tar archive of one."""

    path: Path
    tag: str


@dataclass(frozen=True, slots=True)
class Named:
    """An image in a registry; `name` is as a client takes it, `host` empty for the client's default."""

    name: str
    host: str


Reference = Layout | Archive | Named


def parse(reference: str) -> Reference:
    """Read a reference; raises SpecError that says which forms there are."""
    for prefix, cls in (("oci:", Layout), ("oci-archive:", Archive)):
        if reference.startswith(prefix):
            path, _, tag = reference.removeprefix(prefix).partition(":")
            return cls(_local(reference, path), tag)
    match = _NAME.fullmatch(reference)
    if match is None:
        raise SpecError(
            f"{reference[:200]!r} is no image reference; {_FORMS}"
            if reference
            else f"image reference is empty; {_FORMS}"
        )
    host, path, tag, digest = match.group("host", "path", "tag", "digest")
    if host is not None and not {".", ":"} & set(host) and host != "localhost":
        host, path = None, f"{host}/{path}"
    name = f"{host}/{path}" if host else path
    # A digest says more than a tag beside it, and clients refuse both at once.
    return Named(f"{name}@{digest}" if digest else f"{name}:{tag or 'latest'}", host or "")


def pull_policy(reference: str, written: str) -> str:
    """Give the policy that is written, or Kubernetes' default; raises SpecError for what is none."""
    if written and written not in _POLICIES:
        raise SpecError(f"{written!r} is no pullPolicy of images; write {', '.join(_POLICIES)}, or nothing")
    if written:
        return written
    named = parse(reference)
    latest = named.name.endswith(":latest") if isinstance(named, Named) else named.tag in {"", "latest"}
    return "Always" if latest else "IfNotPresent"


def _local(reference: str, path: str) -> Path:
    if path_problem(path):
        raise SpecError(f"image reference {reference[:200]!r} must name an absolute path without ..; {_FORMS}")
    return Path(path)
