"""When a process started: with its pid and the boot id, that names it for good."""

from __future__ import annotations

from pathlib import Path


def start_time(pid: int) -> int | None:
    """Give a process' start time in clock ticks since boot (proc(5), field 22), or None when it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else int(fields[19])
