"""The tutorial's type on the real kernel: a Pod uses it, and the contract holds there, too."""

import subprocess
from pathlib import Path

from tests.docs.tutorial import answer_to, write_project
from tests.live_node import LiveNode
from tests.side_venv import SideVenv


def test_a_pod_uses_the_tutorials_type(tmp_path: Path) -> None:
    write_project(tmp_path)
    venv = SideVenv.make(tmp_path / "venv")
    with LiveNode(venv.python, tmp_path) as node:
        venv.install(tmp_path / "volmgr-note")
        assert "example.com/note" in node.tell("plugins", "reload")
        rows = [line.split() for line in node.tell("plugins").splitlines()]
        assert [line.split() in rows for line in answer_to("volmgr plugins").splitlines()] == [True, True]
        node.tell("apply", "-f", str(tmp_path / "reader.yaml"))
        assert node.tell("wait", "reader") == answer_to("volmgr wait reader")

        note = node.root / "pods/reader-1/volumes/example.com~note/greeting/note"
        assert str(note.parent) in node.tell("status", "reader")
        assert note.read_text() == "hello"

        node.tell("delete", "reader")
        assert node.tell("wait", "reader", "--for", "unmounted") == answer_to("volmgr wait reader --for unmounted")
        assert not (node.root / "pods/reader-1").exists()


def test_the_tutorials_type_keeps_the_contract_on_the_kernel(tmp_path: Path) -> None:
    write_project(tmp_path)
    venv = SideVenv.make(tmp_path / "venv")
    venv.install(tmp_path / "volmgr-note")
    suite = ["pytest", "-q", "--pyargs", "volmgr.testing.contract", "--volmgr-plugin", "note", "--volmgr-host", "real"]

    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", venv.python, "-m", *suite],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
