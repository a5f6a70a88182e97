"""What a driver, or who registers it, says, as it may be logged and shown: of bounded length, without secrets. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from volmgr_csi.driver.secrets import TOKENS

LONGEST = 1000
"""Characters; gRPC lets 16 KiB through, and all of it would be logged at each try."""
_HEAD = 300
"""Of these, characters from the beginning; the others are the end, where what a driver ran says what went wrong."""
BRIEF = 100
"""Characters of what somebody calls something; no name is longer."""
MASK = "***"
_WORD = 4
"""Characters below which a secret is masked only where it stands alone: as a part of words it would be everywhere."""


def sanitized(said: str, question: object) -> str:
    """Give a driver's words on one line, with what it was told in confidence masked, and no control characters."""
    line = _shown(" ".join(masked(said, _confidences(question)).split()))
    return line if len(line) <= LONGEST else f"{line[:_HEAD]} … {line[_HEAD - LONGEST :]}"


def masked(said: str, secrets: Iterable[str]) -> str:
    """Give words without secrets, of which each line is one, too."""
    parts = {part for secret in secrets for part in _parts(secret)}
    for part in sorted(parts, key=len, reverse=True):
        said = re.sub(_pattern(part), MASK, said)
    return said


def brief(said: str) -> str:
    """Give what somebody calls something on one line, without control characters."""
    return _line(said, BRIEF)


def _line(said: str, longest: int) -> str:
    line = _shown(said[:longest])
    return line if len(said) <= longest and len(line) <= longest else f"{line[:longest]}…"


def _shown(said: str) -> str:
    return "".join(char if char.isprintable() else _escaped(char) for char in said)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "backslashreplace").decode()


def _pattern(secret: str) -> str:
    found = re.escape(secret)
    return found if len(secret) >= _WORD else rf"(?<!\w){found}(?!\w)"


def _confidences(question: object) -> Iterator[str]:
    """Give what nobody else may read of a question: its secrets, and tokens, be they among its attributes."""
    for secret in (*_texts(question, "secrets").values(), _texts(question, "volume_context").get(TOKENS, "")):
        yield from (secret, *_tokens(secret))


def _parts(secret: str) -> Iterator[str]:
    lines = (line for line in map(str.strip, secret.splitlines()) if len(line) >= _WORD)
    yield from (part for part in (secret.strip(), *lines) if part)


def _texts(question: object, field: str) -> Mapping[str, str]:
    return cast("Mapping[str, str]", getattr(question, field, {}))


def _tokens(secret: str) -> Iterator[str]:
    """Give each token of what says them all, as `attributes.tokens` does."""
    try:
        said: object = json.loads(secret)
    except ValueError:
        return
    for issued in cast("dict[str, object]", said).values() if isinstance(said, dict) else ():
        token = cast("dict[str, object]", issued).get("token") if isinstance(issued, dict) else None
        if isinstance(token, str):
            yield token
