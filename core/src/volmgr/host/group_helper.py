"""The executed helper that gives a large volume to a group: one process for each CPU, none of them the daemon's.

A walk in the daemon would take the interpreter from everybody else for as long as it lasts, and could not be ended
while its file system does not answer. Says on its output, as JSON lines, `[seen, changed]` each second, and at last
`{"errno": …, "path": …}` or `{"message": …}` when it failed.
"""

from __future__ import annotations

import json
import mmap
import os
import select
import signal
import struct
import sys
from collections.abc import Callable
from contextlib import suppress

from volmgr.errors import OperationError
from volmgr.host.group_walk import GroupWalk

REFUSED = 3
"""The exit code of a walk that failed and said why."""
_MAY_BE_RIGHT = "--may-be-right"
_MOST = 4  # more processes only wait for each other's locks
_TICK = 1000  # milliseconds
_LONGEST = 2000  # characters of a path in an answer: a write of up to 4,096 bytes to a pipe is whole
_COUNTS = struct.Struct("=QQ")

Answer = dict[str, object]


def command(path: str, group: int, bits: int, *, may_be_right: bool = False) -> tuple[str, ...]:
    """Give what to execute; without site packages, whose directories would be read first.

    With `may_be_right`, nothing is done where the root shows that all was done before.
    """
    here = __file__.removesuffix("/volmgr/host/group_helper.py")
    code = f"import sys; sys.path.append({here!r}); from volmgr.host import group_helper; group_helper.main()"
    more = (_MAY_BE_RIGHT,) if may_be_right else ()
    return (sys.executable, "-I", "-S", "-c", code, path, str(group), str(bits), *more)


def main() -> None:
    """Walk; the arguments are those that `command` gives."""
    crew = _Crew(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), min(_MOST, len(os.sched_getaffinity(0))))
    answer = (_MAY_BE_RIGHT in sys.argv[4:] and crew.look()) or crew.below() or crew.root()
    crew.tell()
    if answer:
        _say(answer)
        sys.exit(REFUSED)


class _Crew:
    """The processes of a walk, and the memory that they share, where each keeps its counts."""

    def __init__(self, path: str, group: int, bits: int, size: int) -> None:
        self._path, self._group, self._bits = path, group, bits
        self._size = size
        self._counts = mmap.mmap(-1, size * _COUNTS.size)
        self._daemon = os.getppid()

    def look(self) -> Answer:
        """End all if the root shows that nothing is left to do; gives why that cannot be seen."""
        return self._attempt(0, _end_if_right)

    def below(self) -> Answer:
        """Let each process walk its part; gives the first failure, which ends all."""
        reading, writing = os.pipe()
        pids = [self._fork(part, writing) for part in range(self._size)]
        os.close(writing)
        answer = self._await_word(reading)
        if answer:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
        if any(codes) and not answer:
            return {"message": f"its processes ended with {codes}"}
        return answer

    def root(self) -> Answer:
        """Change the root, now that all below it is done."""
        return self._attempt(0, GroupWalk.root, *_COUNTS.unpack_from(self._counts, 0))

    def tell(self) -> None:
        """Say how far all are together."""
        seen, changed = zip(*_COUNTS.iter_unpack(self._counts[:]), strict=True)
        _say([sum(seen), sum(changed)])

    def _fork(self, part: int, writing: int) -> int:
        pid = os.fork()
        if pid:
            return pid
        answer = self._attempt(part, GroupWalk.below)
        if answer:
            os.write(writing, json.dumps(answer).encode() + b"\n")
        os._exit(0)

    def _attempt(self, part: int, step: Callable[[GroupWalk], None], seen: int = 0, changed: int = 0) -> Answer:
        """Do a step of one part, counted from what it has done before; gives why it failed."""

        def count(walk: GroupWalk) -> None:
            _COUNTS.pack_into(self._counts, part * _COUNTS.size, seen + walk.seen, changed + walk.changed)

        walk = GroupWalk(self._path, self._group, self._bits, count, part=part, parts=self._size)
        try:
            step(walk)
        except OSError as error:
            return {"errno": error.errno, "path": str(error.filename)[:_LONGEST]}
        except OperationError as error:
            return {"message": str(error)[:_LONGEST]}
        finally:
            count(walk)
        return {}

    def _await_word(self, reading: int) -> Answer:
        """Wait for the first failure, or until all have ended, and tell meanwhile."""
        waiting = select.poll()
        waiting.register(reading, select.POLLIN)
        while not waiting.poll(_TICK):
            self.tell()
            if os.getppid() != self._daemon:  # nobody waits for the end any more, and another may have begun anew
                with suppress(ProcessLookupError):
                    os.killpg(0, signal.SIGKILL)
        word = os.read(reading, 1 << 16)
        answer: Answer = json.loads(word.partition(b"\n")[0]) if word else {}
        return answer


def _end_if_right(walk: GroupWalk) -> None:
    if walk.root_matches():
        sys.exit(0)


def _say(word: object) -> None:
    os.write(1, json.dumps(word).encode() + b"\n")
