"""How a test tells a driver that is a process of its own: one JSON document per line on a socket, one answer each."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.csi.fault_driver.rules import Rule, Script


def serve(script: Script, path: Path) -> None:
    """Obey whoever connects, until the process ends."""
    unheard = path.with_name(f"{path.name}.new")
    unheard.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(unheard))
    listener.listen()
    unheard.rename(path)  # who sees it may connect
    threading.Thread(target=_accept, args=(script, listener), daemon=True).start()


def tell(path: Path, order: Mapping[str, Any]) -> None:
    """Give one order, and return when it is carried out."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(f"{json.dumps(order)}\n".encode())
        answer = connection.makefile().readline()
    assert answer == "done\n", f"the driver did not carry out {order}: {answer or 'it is gone'}"


def _accept(script: Script, listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_obey, args=(script, connection), daemon=True).start()


def _obey(script: Script, connection: socket.socket) -> None:
    with connection, connection.makefile() as lines:
        for line in lines:
            connection.sendall(f"{_carried_out(script, json.loads(line))}\n".encode())


def _carried_out(script: Script, order: Mapping[str, Any]) -> str:
    try:
        match order:
            case {"rules": [*rules]}:
                script.add(Rule(**each) for each in rules)
            case {"clear": True}:
                script.clear()
            case {"open": str(gate)}:
                script.open(gate)
            case {"until": str(gate), "calls": int(calls)}:
                script.until_reached(gate, calls)
            case _:
                return f"no such order: {order}"
    except (AssertionError, TypeError) as error:
        return str(error)
    return "done"
