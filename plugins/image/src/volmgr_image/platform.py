"""Which of the images in an index is for this machine. Pure but for the question which machine this is.

Sources of the names: the platform object of the OCI image index, and Go's names of architectures.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from volmgr.plugin import SpecError
from volmgr_image.documents import Fields, child, listed, text

_MACHINES = {
    "x86_64": ("amd64", ""),
    "aarch64": ("arm64", "v8"),
    "armv8l": ("arm", "v7"),
    "armv7l": ("arm", "v7"),
    "armv6l": ("arm", "v6"),
    "i386": ("386", ""),
    "i686": ("386", ""),
    "loongarch64": ("loong64", ""),
}
_LESSER = {"v8": ("v8", ""), "v7": ("v7", "", "v6", "v5"), "v6": ("v6", "", "v5"), "": ("", "v8", "v1")}
"""The variants that a machine of one variant runs, the best first."""


@dataclass(frozen=True, slots=True)
class Platform:
    """An operating system, an architecture as Go names it, and its variant (empty: the usual one)."""

    os: str
    architecture: str
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(filter(None, (self.os, self.architecture, self.variant)))

    def choose(self, candidates: Sequence[Fields]) -> Fields | None:
        """Give the descriptor of the best image for this platform; None when none is."""
        for variant in _LESSER.get(self.variant, (self.variant,)):
            for candidate in candidates:
                if _of(candidate) == Platform(self.os, self.architecture, variant):
                    return candidate
        return None


def this_platform(written: str) -> Platform:
    """Give the platform that the configuration names, such as `linux/arm64/v8`, or that of this machine."""
    if written:
        parts = written.split("/")
        if len(parts) not in {2, 3} or not all(parts):
            raise SpecError(f"{written!r} of the configuration is no platform; write linux/arm64, for example")
        return Platform(*parts)
    machine = os.uname().machine
    return Platform("linux", *_MACHINES.get(machine, (machine, "")))


def platforms(candidates: Sequence[Fields]) -> str:
    """Name the platforms of an index, for a message."""
    return listed(str(_of(candidate)) or "none" for candidate in candidates)


def _of(candidate: Fields) -> Platform:
    platform = child(candidate, "platform")
    return Platform(text(platform, "os"), text(platform, "architecture"), text(platform, "variant"))
