"""The driver as a process: `python -m tests.csi.fault_driver --top DIRECTORY --endpoint SOCKET --control SOCKET`."""

from __future__ import annotations

import argparse
import json
import signal
from pathlib import Path

from tests.csi.fault_driver import control
from tests.csi.fault_driver.driver import Driver
from tests.csi.fault_driver.profile import Profile
from tests.csi.fault_driver.rules import Rule


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="fault_driver")
    parser.add_argument("--top", type=Path, required=True, help="where volumes, calls and registrations are kept")
    parser.add_argument("--endpoint", type=Path, required=True, help="the socket of CSI")
    parser.add_argument("--registration", type=Path, help="the socket of pluginregistration.v1")
    parser.add_argument("--control", type=Path, help="the socket at which a test says what goes wrong")
    parser.add_argument("--profile", type=json.loads, default={}, help="JSON of what it is and can do")
    parser.add_argument("--rules", type=json.loads, default=[], help="JSON list of rules that hold from the start")
    said = parser.parse_args()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    profile = Profile.from_json(said.profile)
    rules = [Rule(**each) for each in said.rules]
    with Driver(said.top, profile, said.endpoint, said.registration, rules, may_crash=True) as driver:
        if said.control is not None:
            control.serve(driver.script, said.control)
        signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    main()
