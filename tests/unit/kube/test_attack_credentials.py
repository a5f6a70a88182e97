"""Credentials that do not come, and what a killed daemon leaves of them."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.unit.kube.recording import Kubeconfigs
from tests.unit.kube.scripted_server import Certificates, ScriptedServer
from volmgr.kube.access import access_by
from volmgr.kube.api import configured
from volmgr.kube.errors import ApiError
from volmgr.model.kube import KubeSettings

CREDENTIAL = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"late"}}'


def plugin(directory: Path, script: str) -> dict[str, object]:
    path = directory / "plugin"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(stat.S_IRWXU)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", "args": ["a b", "$x"]}}


def test_a_command_for_credentials_that_hangs_is_ended_with_its_children(
    tmp_path: Path, kubeconfigs: Kubeconfigs
) -> None:
    pid = tmp_path / "pid"
    path = kubeconfigs.write("https://127.0.0.1:1", plugin(tmp_path, f"sleep 1000 & echo $! > {pid}; wait"))
    with pytest.raises(ApiError, match=r"the command of exec in .* gave no credentials within 0.5 s"):
        configured(path, KubeSettings(request_timeout=0.5)).get("/api/v1/nodes/n1")
    assert not is_running(int(pid.read_text()))


def test_a_command_is_given_its_arguments_as_they_are(tmp_path: Path, kubeconfigs: Kubeconfigs) -> None:
    said = tmp_path / "said"
    script = f"printf '%s|' \"$@\" > {said}; echo '{CREDENTIAL}'"
    access = access_by(kubeconfigs.write("https://127.0.0.1:1", plugin(tmp_path, script)), 1)
    assert access.headers() == {"authorization": "Bearer late"}
    assert said.read_text() == "a b|$x|"


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


READ = """
import sys
from pathlib import Path
from volmgr.kube.access import access_by
access_by(Path(sys.argv[1]), 1).session()  # the command hangs
"""


def leftovers() -> set[Path]:
    return set(Path("/dev/shm").glob("volmgr-kube-*"))


def test_keys_that_a_killed_daemon_left_in_memory_are_removed_by_the_next(
    tmp_path: Path, kubeconfigs: Kubeconfigs, certificates: Certificates
) -> None:
    pid = tmp_path / "pid"
    hanging = kubeconfigs.write("https://127.0.0.1:1", plugin(tmp_path, f"echo $PPID $$ > {pid}; kill -STOP $$"))
    with subprocess.Popen([sys.executable, "-c", READ, str(hanging)]) as reader:
        try:
            while not pid.exists() or not pid.read_text().endswith("\n"):
                assert reader.poll() is None
            mine = {each for each in leftovers() if each.name.startswith(f"volmgr-kube-{reader.pid}-")}
        finally:
            reader.kill()
    for each in pid.read_text().split():
        with suppress(ProcessLookupError):  # the kernel may hang up on a stopped orphan before we come to it
            os.kill(int(each), signal.SIGKILL)
    assert mine
    assert mine <= leftovers()
    alive = Path(f"/dev/shm/volmgr-kube-{os.getpid()}-other")
    alive.mkdir(mode=0o700)
    try:
        with ScriptedServer(certificates) as server:
            access_by(kubeconfigs.write(server.address), 1)
        assert not mine & leftovers()
        assert alive.exists()
    finally:
        alive.rmdir()
