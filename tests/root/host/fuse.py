"""A FUSE file system without libfuse that answers nothing: what a dead or hanging server looks like.

Source: `include/uapi/linux/fuse.h`. Closing the device aborts the connection: stat says ENOTCONN from then on.
"""

import os
import select
import struct
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from volmgr.host import syscalls

_HEADER = struct.Struct("=IIQQIIII")  # length, opcode, unique, node, uid, gid, pid, padding
_INIT = 26
_INIT_REPLY = struct.Struct("=IiQ" + "IIIIHHII" + "32s")
_REFUSAL = struct.Struct("=IiQ")  # length, negative errno, unique
_BUFFER = 1 << 17


class SilentFuse:
    """Mounted from entering to leaving the context, or longer, when it is left mounted but dead by `die()`."""

    def __init__(self, target: Path) -> None:
        self._device = os.open("/dev/fuse", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._stop = threading.Event()
        self._asked = threading.Event()
        self._thread: threading.Thread | None = None
        self._refusal = 0
        options = f"fd={self._device},rootmode=40000,user_id=0,group_id=0,allow_other"
        syscalls.mount("silent", str(target), "fuse.silent", 0, options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.die()

    def serve_until_asked(self) -> None:
        """Greet the kernel, then take one question and never answer it."""
        self._start()

    def refuse_all(self, error: int) -> None:
        """Greet the kernel, then answer each question with this errno."""
        self._refusal = error
        self._start()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def asked(self) -> bool:
        return self._asked.wait(10)

    def was_asked(self) -> bool:
        return self._asked.is_set()

    def die(self) -> None:
        """Go away without unmounting; all that wait for answers get ENOTCONN or ECONNABORTED."""
        if self._device >= 0:
            self._stop.set()
            if self._thread is not None:
                self._thread.join()
            os.close(self._device)
            self._device = -1

    def _serve(self) -> None:
        while not self._stop.is_set():
            if not select.select([self._device], [], [], 0.05)[0]:
                continue
            try:
                data = os.read(self._device, _BUFFER)
            except OSError:
                return
            _, opcode, unique, *_ = _HEADER.unpack_from(data)
            if opcode == _INIT:
                body = (7, 31, 65536, 0, 0, 0, 65536, 1, b"")
                os.write(self._device, _INIT_REPLY.pack(_INIT_REPLY.size, 0, unique, *body))
            elif self._refusal:
                os.write(self._device, _REFUSAL.pack(_REFUSAL.size, -self._refusal, unique))
            else:
                self._asked.set()
