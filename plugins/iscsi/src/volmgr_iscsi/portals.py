"""Portals: where a target is reached. Pure.

Source: `portalMounter` of kubelet's `pkg/volume/iscsi`, which gives one without a colon the port 3260.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Self

PORT = 3260
"""iSCSI's, of IANA."""

_LARGEST_PORT = 65535
_TEXT = re.compile(
    r"(?P<address>\[[0-9a-f:.]*:[0-9a-f:.]*(%[a-z0-9._-]+)?\]|[a-z0-9][a-z0-9._-]{0,252})(:(?P<port>\d{1,5}))?",
    re.ASCII | re.IGNORECASE,
)
_BARE_V6 = re.compile(r"[0-9a-f.]*:[0-9a-f:.]*:[0-9a-f:.]*", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Portal:
    """One portal; two are equal when they lead to the same address and port, however they are written."""

    address: str
    port: int = PORT

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `10.0.0.1`, `10.0.0.1:3260`, `[2001:db8::1]:3260` or a host's name; raises ValueError saying why not."""
        if _BARE_V6.fullmatch(text):
            with suppress(ValueError):
                return cls(str(ip_address(text)))
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is no portal; write one such as 10.0.0.1:3260 or [2001:db8::1]:3260")
        port = int(found["port"] or PORT)
        if not 0 < port <= _LARGEST_PORT:
            raise ValueError(f"{text!r} has the port {port}, which is not between 1 and {_LARGEST_PORT}")
        return cls(_normal(found["address"].strip("[]")), port)

    @classmethod
    def of(cls, address: str, port: int) -> Self:
        """Give that of an address without brackets."""
        return cls(_normal(address), port)

    def __str__(self) -> str:
        """Write it as iscsiadm reads it, always with its port."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"

    @property
    def file_name(self) -> str:
        """How names of open-iscsi's database begin: `10.0.0.1,3260`."""
        return f"{self.address},{self.port}"


def named(text: str) -> str:
    """Write a portal as kubelet has it in its names: with a port, unless it has a colon already."""
    return text if ":" in text else f"{text}:{PORT}"


def without_repetition(texts: Iterable[str]) -> tuple[str, ...]:
    """Give portals as kubelet has them in its names, the first of equal ones, in their order."""
    found: dict[Portal, str] = {}
    for text in texts:
        found.setdefault(Portal.parse(text), named(text))
    return tuple(found.values())


def _normal(address: str) -> str:
    try:
        return str(ip_address(address))
    except ValueError:
        return address.lower()
