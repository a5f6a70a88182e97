"""csi-translation-lib, the library that kubelet translates in-tree volumes with: asked question by question."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from tests.kube.cluster import BINARIES

Document = dict[str, Any]


@dataclass(frozen=True)
class Library:
    """The library in a process of its own (`tests/kube/tools/translate`)."""

    questions: IO[str]
    answers: IO[str]

    def ask(self, question: Document) -> Document:
        """Give what it `read`, and its `result`, `error` or `panic`."""
        print(json.dumps(question), file=self.questions, flush=True)
        answer: Document = json.loads(self.answers.readline())
        return answer


@contextmanager
def running_library() -> Generator[Library]:
    """Run it."""
    argv = [str(BINARIES / "translate")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Library(process.stdin, process.stdout)
        process.stdin.close()
        assert process.wait(10) == 0
