"""Kubernetes quantities as exact integers or fractions.

Source of the format: the `Quantity` type of k8s.io/apimachinery (binary and decimal suffixes, exponents).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

_SUFFIXES = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)
_LONGEST = 64


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An amount, exact; `str()` gives the text it was written as."""

    value: Fraction
    text: str

    @classmethod
    def parse(cls, text: str | float) -> Quantity:
        """Read a quantity such as `64Mi`, `1.5`, `2e3`; raises ValueError when it is none."""
        written = str(text)
        match = _FORM.fullmatch(written) if len(written) <= _LONGEST else None
        if match is None:
            remedy = "write a number with an optional suffix such as 64Mi or 1G"
            raise ValueError(f"{written[:_LONGEST]!r} is not a quantity; {remedy}")
        number, exponent, suffix = match.groups()
        scale = Fraction(10) ** int(exponent[1:]) if exponent else _SUFFIXES[suffix or ""]
        return cls(Fraction(number) * scale, written)

    @classmethod
    def of(cls, value: int) -> Quantity:
        """Give the quantity of a plain integer."""
        return cls(Fraction(value), str(value))

    @classmethod
    def of_bytes(cls, size: int) -> Quantity:
        """Give the quantity of so many bytes, written with the largest suffix that is exact: `16Mi`."""
        powers = (("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10))
        suffix, power = next((each for each in powers if size and size % (1 << each[1]) == 0), ("", 0))
        return cls(Fraction(size), f"{size >> power}{suffix}")

    def to_int(self) -> int:
        """Give the amount as an integer, rounded up as Kubernetes does."""
        return -((-self.value.numerator) // self.value.denominator)

    def __str__(self) -> str:
        return self.text
