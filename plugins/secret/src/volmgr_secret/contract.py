"""What the contract suite tries secret with: all keys, chosen ones, and a Secret that is not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from volmgr.plugin import KeyToPath, ObjectMeta, Secret
from volmgr.testing import Sample
from volmgr_secret.plugin import SecretSource

_SECRET = Secret(metadata=ObjectMeta(name="login"), data={"user": b"admin", "password": b"\x00\xff", "empty": b""})


def samples(top: Path) -> Iterator[object]:
    """Give sources, and the objects that they refer to."""
    del top
    name = _SECRET.metadata.name
    yield Sample(source=SecretSource(secret_name=name), objects=(_SECRET,))
    items = (KeyToPath(key="password", path="db/password", mode=0o400), KeyToPath(key="user", path="db/user"))
    yield Sample(source=SecretSource(secret_name=name, items=items, default_mode=0o440), objects=(_SECRET,))
    yield SecretSource(secret_name=f"no-{name}", optional=True)
