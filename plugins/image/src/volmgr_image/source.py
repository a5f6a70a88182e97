"""What a volume of the image type is asked for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSource:
    """`image` of a Pod volume: which image, and whether what is on the node will do."""

    reference: str = ""
    pull_policy: str = ""
