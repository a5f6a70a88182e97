"""What becomes the files of a secret, configMap, downwardAPI or projected volume: the rules, not the writing. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyToPath:
    """One entry of `items`: which key becomes the file at which relative path, and its mode if not the default."""

    key: str
    path: str
    mode: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadFile:
    """One file of a volume: its bytes, its exact mode, and its owner (-1: the daemon's)."""

    data: bytes = field(repr=False)
    mode: int
    uid: int = -1


Payload = Mapping[str, PayloadFile]
"""Files by their path relative to the volume."""
