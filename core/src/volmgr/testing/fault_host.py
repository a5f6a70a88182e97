"""A host that fails, or dies, at a chosen call; wraps any other host.

`Killed` stands for kill -9: nothing after it runs, so it is no Exception, and each later call raises it again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self, TypeVar

from volmgr.host.interface import Certificates, Host, Tokens

T = TypeVar("T")

_SERVICES = ("mounts", "files", "commands", "block", "ownership", "subpaths", "archives", "scsi", "network")


class Killed(BaseException):
    """The process was killed; derived from BaseException so that no handler of errors sees it."""


class When(StrEnum):
    """On which side of a host call a fault strikes."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a host service: its number (from 1), `service.verb`, and its arguments."""

    number: int
    verb: str
    args: tuple[object, ...]
    kwargs: dict[str, object] = field(hash=False)

    def __str__(self) -> str:
        given = [*map(_short, self.args), *(f"{key}={_short(value)}" for key, value in self.kwargs.items())]
        return f"{self.verb}({', '.join(given)})"


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at one call: `error` is raised before it, or after it was carried out.

    `at` counts the calls of `verb` (`mounts.unmount`), or all calls when that is empty; `times` says how many
    calls in a row, from `at` on, suffer it.
    """

    at: int
    error: BaseException
    when: When = When.BEFORE
    verb: str = ""
    times: int = 1

    @classmethod
    def kill(cls, at: int, when: When = When.BEFORE, *, verb: str = "") -> Fault:
        """Kill the process at a call."""
        return cls(at, Killed(), when, verb)

    def strikes(self, number: int) -> bool:
        """Say whether the n-th call that counts suffers this fault."""
        return self.at <= number < self.at + self.times


class FaultHost(Host):
    """Another host whose calls are counted, traced, and made to fail as planned."""

    def __init__(self, inner: Host, plan: Iterable[Fault] = ()) -> None:
        self.inner = inner
        self.faults = list(plan)
        """What is still to happen; may be changed at any time (counting began with the host)."""
        self.trace: list[Call] = []
        """Every call so far, in order, with those that failed."""
        self.dead = False
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        wrapped = {name: _Wrapped(self, name, getattr(inner, name)) for name in _SERVICES}
        super().__init__(
            paths=inner.paths,
            kernel=inner.kernel,
            clock=inner.clock,
            tokens=inner.tokens,
            certificates=inner.certificates,
            settings=inner.settings,
            **wrapped,  # type: ignore[arg-type]
        )

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def with_tokens(self, tokens: Tokens) -> Self:
        """Let somebody else issue tokens on this very host, whose calls are counted."""
        self.tokens: Tokens = tokens
        return self

    def with_certificates(self, certificates: Certificates) -> Self:
        """Let somebody else have certificates signed for this very host, whose calls are counted."""
        self.certificates: Certificates = certificates
        return self

    @property
    def verbs(self) -> list[str]:
        """What was called, in order: `['files.ensure_directory', 'mounts.ensure_mounted']`."""
        return [call.verb for call in self.trace]

    def perform(self, verb: str, function: Callable[..., T], args: tuple[object, ...], kwargs: dict[str, object]) -> T:
        """Carry out one call of a service, or fail as planned."""
        with self._lock:
            before, after = self._count(verb, args, kwargs)
        if before is not None:
            self._strike(before)
        result = function(*args, **kwargs)
        if after is not None:
            self._strike(after)
        if self.dead:
            raise Killed
        return result

    def _count(
        self, verb: str, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[BaseException | None, BaseException | None]:
        if self.dead:
            raise Killed
        self.trace.append(Call(len(self.trace) + 1, verb, args, kwargs))
        for key in (verb, ""):
            self._counts[key] = self._counts.get(key, 0) + 1
        struck = [
            fault for fault in self.faults if fault.verb in (verb, "") and fault.strikes(self._counts[fault.verb])
        ]
        before = next((fault.error for fault in struck if fault.when is When.BEFORE), None)
        after = next((fault.error for fault in struck if fault.when is When.AFTER), None)
        return before, after

    def _strike(self, error: BaseException) -> None:
        self.dead = self.dead or isinstance(error, Killed)
        raise error


class _Wrapped:
    """One service whose methods go through `perform`; its protocol is that of the service it wraps."""

    def __init__(self, host: FaultHost, name: str, service: object) -> None:
        self._host = host
        self._name = name
        self._service = service

    def __getattr__(self, verb: str) -> Callable[..., object]:
        function: Callable[..., object] = getattr(self._service, verb)

        def call(*args: object, **kwargs: object) -> object:
            return self._host.perform(f"{self._name}.{verb}", function, args, kwargs)

        return call


def _short(value: object) -> str:
    text = repr(value) if not hasattr(value, "parts") else str(value)
    return text if len(text) <= 60 else text[:57] + "..."  # noqa: PLR2004 - a line's worth
