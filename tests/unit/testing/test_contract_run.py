"""The contract suite as a third party runs it: one command, a server if the type needs one, a report.

That the types of this repository pass it on both hosts is tested in tests/root/packaging, with wheels.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest


def run(tmp_path: Path, *options: str) -> tuple[int, str]:
    command = (sys.executable, "-m", "pytest", "--pyargs", "volmgr.testing.contract", *options)
    hermetic = ("-p", "no:cacheprovider", "-p", "no:randomly", "-q", "--basetemp", str(tmp_path / "run"))
    done = subprocess.run(
        (*command, *hermetic),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("key", ["kubernetes.io/empty-dir", "volmgr_emptydir.plugin:EmptyDir"])
def test_a_type_may_be_named_in_several_ways(tmp_path: Path, key: str) -> None:
    code, output = run(tmp_path, "--volmgr-plugin", key, "-k", "test_an_unmount_needs_names_only")
    assert code == 0, output
    assert "3 passed" in output


def test_a_type_that_is_not_installed_is_an_error_that_names_those_that_are(tmp_path: Path) -> None:
    code, output = run(tmp_path, "--volmgr-plugin", "nfs4")
    assert code != 0
    assert re.search("no volume type is called 'nfs4'; installed are .*emptydir.*hostpath", output)


def test_the_suite_says_what_it_needs_to_know(tmp_path: Path) -> None:
    code, output = run(tmp_path)
    assert code != 0
    assert "say which volume type is tested: --volmgr-plugin KEY" in output


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("source=Source", "Source has no default values"),
        ("", "Type names no source in handles"),
    ],
)
def test_a_type_that_needs_samples_is_told_where_to_write_them(tmp_path: Path, source: str, problem: str) -> None:
    (tmp_path / "needy.py").write_text(
        "from dataclasses import dataclass\n"
        "from volmgr.plugin import Handles, VolumePlugin\n"
        "@dataclass(frozen=True)\n"
        "class Source:\n"
        "    server: str\n"
        "class Type(VolumePlugin[Source]):\n"
        "    name = 'example.com/needy'\n"
        f"    handles = (Handles('needy', {source}),)\n"
    )
    code, output = run(tmp_path, "--volmgr-plugin", "needy:Type")
    assert code != 0
    assert problem in output
    assert "offer samples() in needy.contract" in output
    assert "conftest.py" not in output  # no traceback: nothing is wrong with the suite


SERVED = dedent('''\
    """greeting volumes: a file in memory with what a server says."""

    import socket
    import socketserver
    import threading
    from collections.abc import Iterator
    from dataclasses import dataclass
    from pathlib import Path

    import pytest

    from volmgr.plugin import Handles, Host, Mount, Mounted, OperationError, TransientError, UncertainError
    from volmgr.plugin import Unmount, Unmounted, VolumePlugin
    from volmgr.testing import Sample


    @dataclass(frozen=True)
    class GreetingSource:
        port: int


    class Greeting(VolumePlugin[GreetingSource]):
        name = "example.com/greeting"
        handles = (Handles("greeting", source=GreetingSource),)

        def mount(self, request: Mount[GreetingSource], host: Host) -> Mounted:
            with socket.create_connection(("127.0.0.1", request.spec.source.port)) as server:
                text = server.makefile("rb").read()
            try:
                host.files.ensure_directory(request.target, 0o750)
                host.mounts.ensure_mounted(request.target, "tmpfs", source="tmpfs")
                host.files.write(request.target / "greeting", text)
            except (OperationError, TransientError) as error:
                raise UncertainError(f"{request.target} may be mounted: {error}") from error
            return Mounted()

        def unmount(self, request: Unmount, host: Host) -> Unmounted:
            host.mounts.unmount_below(request.target)
            host.files.remove_directory(request.target)
            return Unmounted()


    class Greet(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            Path("asked").touch()
            self.request.sendall(b"hello")


    @pytest.fixture(scope="session")
    def volmgr_backend() -> Iterator[int]:
        with socketserver.TCPServer(("127.0.0.1", 0), Greet) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            yield server.server_address[1]
            server.shutdown()
            thread.join()
        Path("stopped").touch()


    def samples(top: Path) -> Iterator[Sample]:
        yield Sample(source=GreetingSource(port=0), of_backend=GreetingSource)
    ''')


@pytest.mark.parametrize("host", ["fake", pytest.param("real", marks=pytest.mark.root)])
def test_a_type_that_needs_a_server_is_tried_with_one(tmp_path: Path, host: str) -> None:
    (tmp_path / "greeting.py").write_text(SERVED)
    code, output = run(tmp_path, "--volmgr-plugin", "greeting:Greeting", "--volmgr-host", host)
    assert code == 0, output
    assert (tmp_path / "asked").exists()
    assert (tmp_path / "stopped").exists()


def test_a_report_says_what_was_promised_and_kept(tmp_path: Path) -> None:
    code, output = run(tmp_path, "--volmgr-plugin", "hostpath", "--volmgr-report", "report.json")
    assert code == 0, output
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["type"], report["host"], report["complete"], report["kept"]) == (
        "kubernetes.io/host-path",
        "fake",
        True,
        True,
    )
    assert report["package"].startswith("volmgr-hostpath ")
    assert len(report["samples"]) == 4
    results = {promise["promise"]: set(promise["results"].values()) for promise in report["promises"]}
    assert results["a second mount changes nothing"] == {"kept"}
    assert results["usage is measured sanely"] == {"not promised by volumes that cannot be measured"}
    assert all(set(promise["results"]) == set(report["samples"]) for promise in report["promises"])


def test_a_report_names_what_is_broken_and_what_was_left_out(tmp_path: Path) -> None:
    (tmp_path / "greeting.py").write_text(SERVED.replace("host.files.remove_directory(request.target)", "pass"))
    options = ("--volmgr-plugin", "greeting:Greeting", "--volmgr-report", "report.md", "-n", "2")
    code, _ = run(tmp_path, *options, "-k", "left_after_an_unmount or second_mount_changes")
    assert code == 1
    report = (tmp_path / "report.md").read_text()
    assert report.startswith("# example.com/greeting breaks the contract of volmgr's volume types\n")
    assert "| a second mount changes nothing | kept |" in report
    assert re.search(r"^\| nothing is left after an unmount \| broken: .*assert ", report, re.MULTILINE)
    assert "| promises | only those of this table: the others were left out |" in report
