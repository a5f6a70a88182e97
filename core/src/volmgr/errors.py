"""Every error that volmgr raises on purpose; the class says who must act.

Messages are lower-case and say what was attempted, on what, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class VolmgrError(Exception):
    """The root of all errors raised on purpose."""


class SpecError(VolmgrError):
    """The author of a manifest must act; not retried until the manifest changes."""


class ManifestError(SpecError):
    """A manifest is wrong; says in which file, document and field, and what to write instead."""

    def __init__(self, problem: str, *, file: str = "", document: int = 0, field: str = "", remedy: str = "") -> None:
        self.problem = problem
        self.file = file
        self.document = document
        self.field = field
        self.remedy = remedy
        place = [part for part in (file, f"document {document}" if document else "", field) if part]
        text = ": ".join([*place, problem])
        super().__init__(f"{text}; {remedy}" if remedy else text)


class PluginError(VolmgrError):
    """Whoever installs the packages must act: a volume type is missing, broken or wrongly written."""


class UnservedError(PluginError):
    """No installed package serves a volume type; names the field and what would bring it."""


class OperationError(VolmgrError):
    """An operation failed and left nothing behind; retried with back-off."""


class CommandError(OperationError):
    """An executed command failed; carries its argv, exit code and the tail of its stderr."""

    def __init__(self, argv: Sequence[str], exit_code: int, stderr: str) -> None:
        self.argv = tuple(argv)
        self.exit_code = exit_code
        self.stderr = stderr
        super().__init__(f"{' '.join(argv)} exited with {exit_code}: {stderr.strip() or 'no message on stderr'}")


class BusyError(OperationError):
    """A mount is in use; names the processes that hold it."""

    def __init__(self, problem: str, holders: Sequence[str] = ()) -> None:
        self.holders = tuple(holders)
        super().__init__(f"{problem}; held by {', '.join(holders)}" if holders else problem)


class UnansweredError(OperationError):
    """A server did not answer, and nothing was left behind; the core says since when its volumes hang."""


class DeviceLostError(OperationError):
    """A Pod's mount failed and left nothing behind, since the node's mount is not there: that is made again first."""


class UncertainError(VolmgrError):
    """An operation may have left something behind; it counts as present until it is known to be gone."""


class OverdueError(UncertainError):
    """Whoever was asked (a helper, a server behind it) did not answer in time, and may have done it all the same."""


class TransientError(VolmgrError):
    """Nothing changed; `waits_for` names what must appear first."""

    def __init__(self, problem: str, *, waits_for: str = "") -> None:
        self.waits_for = waits_for
        super().__init__(problem)


class NotReconstructible(VolmgrError):
    """A directory on disk does not say enough to rebuild its volume."""


class NotOurs(NotReconstructible):
    """What lies in a volume's place was made by somebody else: it is left alone and named."""


def says_silent(error: BaseException | None) -> bool:
    """Say whether an error, or what it came from, is that somebody did not answer."""
    while error is not None:
        if isinstance(error, (UnansweredError, OverdueError)):
            return True
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


@contextmanager
def taken_back(undo: Callable[[], object], what: str) -> Generator[None]:
    """Undo when what is done within fails, and raise its error; UncertainError when undoing fails, too.

    `what` names what is done, such as `mounting /srv`. An UncertainError from within is left alone: what it speaks of
    may still be at work, and the core unmounts it.
    """
    try:
        yield
    except UncertainError:
        raise
    except VolmgrError as error:
        try:
            undo()
        except VolmgrError as second:
            raise UncertainError(f"{what} failed ({error}), and so did undoing it: {second}") from error
        raise


@contextmanager
def extra_needed(what: str, extra: str) -> Generator[None]:
    """Turn a library that is not there into what is to be installed: raises PluginError."""
    try:
        yield
    except ImportError as error:
        raise PluginError(f"{what} needs {error.name}: pip install 'volmgr[{extra}]'") from None


@contextmanager
def uncertain_if_it_fails() -> Generator[None]:
    """Say that no failure within is a clean one any more: what was to be made is there, and the next try goes on."""
    try:
        yield
    except UncertainError:
        raise
    except VolmgrError as error:
        raise UncertainError(str(error)) from error
