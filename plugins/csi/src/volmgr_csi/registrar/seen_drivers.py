"""Which drivers were ever seen on this node, in a file below our own state: what they are needed for outlives them."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import cast

from volmgr.plugin import DriverInfo, Host, VolmgrError
from volmgr_csi.driver.connection import Connection
from volmgr_csi.driver.drivers import START, Abilities, Driver

_log = logging.getLogger(__name__)

FORMAT = 1
"""Of the file; one of another format counts as damaged."""

_ABILITIES = tuple(asdict(Abilities()))


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenDriver:
    """What is kept of a driver: enough to unmount by it, while it answers and its registrar is gone."""

    name: str
    endpoint: str
    node_id: str
    abilities: tuple[str, ...] = ()
    controller: tuple[str, ...] = ()
    at: float = 0.0
    """When it was last known to be there; Unix time in seconds."""

    @classmethod
    def of(cls, driver: Driver, at: float) -> SeenDriver:
        """Give what is kept of a driver."""
        can = tuple(name for name in _ABILITIES if getattr(driver.abilities, name))
        info = driver.info
        place = {"name": info.name, "endpoint": info.endpoint, "node_id": info.node_id}
        return cls(**place, abilities=can, controller=tuple(sorted(driver.controller)), at=at)

    def absence(self) -> str:
        """Say that it is not there."""
        when = datetime.fromtimestamp(self.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return f"last seen {when}, at {self.endpoint}"

    def retired(self, connection: Connection) -> Driver:
        """Give it as a driver that only unmounts."""
        info = DriverInfo(name=self.name, node_id=self.node_id, endpoint=self.endpoint)
        abilities = Abilities(**{name: name in self.abilities for name in _ABILITIES})
        controller = frozenset(self.controller)
        return Driver(info=info, abilities=abilities, connection=connection, controller=controller, retired=True)


class SeenDrivers:
    """The file, and what it says; one thread at a time."""

    def __init__(self, host: Host) -> None:
        self._files = host.files
        self._path = host.paths.state / "csi" / "drivers.json"
        self._seen: dict[str, SeenDriver] = {}

    def load(self) -> tuple[SeenDriver, ...]:
        """Read the file; one that is missing, or damaged, says nothing."""
        try:
            text = self._files.read(self._path)
            found = () if text is None else _read(text)
        except (VolmgrError, ValueError, TypeError, KeyError) as error:
            _log.warning("%s is not read, and is written anew with the next driver: %s", self._path, error)
            found = ()
        self._seen = {each.name: each for each in found}
        return tuple(found)

    def all(self) -> tuple[SeenDriver, ...]:
        """Give all that were ever seen."""
        return tuple(self._seen.values())

    def note(self, *drivers: Driver) -> None:
        """Keep that drivers are, or were, here now; that it cannot be written harms nobody today."""
        self._seen |= {each.name: SeenDriver.of(each, time.time()) for each in drivers}
        try:
            self._files.ensure_directory(self._path.parent, 0o700)
            self._files.write(self._path, _text(self._seen.values()))
        except VolmgrError as error:
            _log.warning("which csi drivers are here is not kept over a restart: %s", error)


def absences(seen: Iterable[SeenDriver], problems: Mapping[str, str]) -> Mapping[str, str]:
    """Say of each driver that is, or may be, not there why, and what to do; `problems` as `WatchedSockets` has them."""
    found = {each.name: each.absence() for each in seen}
    for name, problem in problems.items():
        if not name.startswith("/"):
            found[name] = "; ".join(filter(None, (found.get(name), f"its registration failed: {problem}")))
    return {name: why if name in problems else f"{why}; {START}" for name, why in found.items()}


def _text(seen: Iterable[SeenDriver]) -> bytes:
    document = {"format": FORMAT, "drivers": [asdict(each) for each in sorted(seen, key=lambda each: each.name)]}
    return json.dumps(document, indent=1).encode() + b"\n"


def _read(text: bytes) -> tuple[SeenDriver, ...]:
    document = cast("dict[str, object]", json.loads(text))
    if document["format"] != FORMAT:
        raise ValueError(f"it is of format {document['format']!r}, and only {FORMAT} is known")
    return tuple(map(_entry, cast("list[dict[str, object]]", document["drivers"])))


def _entry(document: dict[str, object]) -> SeenDriver:
    abilities, controller = (
        tuple(map(str, cast("list[object]", document[name]))) for name in ("abilities", "controller")
    )
    place = {name: str(document[name]) for name in ("name", "endpoint", "node_id")}
    return SeenDriver(**place, abilities=abilities, controller=controller, at=float(cast("float", document["at"])))
