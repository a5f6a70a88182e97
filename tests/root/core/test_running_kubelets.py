"""A root directory that a running kubelet has is refused; real processes, by kubelets' names, stand for kubelets."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.root.acceptance.outside import Outside
from volmgr import kubelet
from volmgr.kubelet import kubelet_of

Run = Callable[..., subprocess.Popen[bytes]]

_LISTEN = """
import signal, socket, sys
server = socket.socket(socket.AF_UNIX)
server.bind({path!r})
server.listen()
print(flush=True)
signal.pause()
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    return root


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Run a shell under another program's name, with its arguments, until the test ends."""
    programs = tmp_path / "bin"
    programs.mkdir()
    running: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str, first: str = "") -> subprocess.Popen[bytes]:
        """`first`: what is done as root in a mount namespace of its own, before it becomes that program."""
        shutil.copy(_shell(), programs / name)
        argv = [str(programs / name), "-s", "--", *arguments]
        if first:
            script = f"set -e\n{first}\nexec ${{chroot:+chroot $chroot}} {shlex.join(argv)}"
            argv = ["unshare", "--mount", "--propagation", "private", "bash", "-c", script]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        running.append(process)
        assert process.stdin is not None
        process.stdin.write(b"echo\nread\n")
        process.stdin.flush()
        _await_line(process)
        return process

    yield start
    for process in running:
        _end(process)


def _shell() -> str:
    found = shutil.which("bash")
    assert found
    return os.path.realpath(found)


def _await_line(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == b"\n"


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


@pytest.mark.parametrize(
    ("name", "arguments", "command", "stop"),
    [
        ("kubelet", ("--v=2", "--root-dir={}", "--config=/x"), "kubelet", "systemctl stop kubelet"),
        ("kubelet", ("--root-dir", "{}"), "kubelet", "systemctl stop kubelet"),
        ("kubelite", ("--root-dir={}",), "kubelite", "snap stop microk8s.daemon-kubelite"),
        ("k3s", ("agent", "--kubelet-arg=root-dir={}"), "k3s agent", "systemctl stop k3s k3s-agent"),
        ("k3s", ("server", "--kubelet-arg", "root-dir={}"), "k3s server", "systemctl stop k3s k3s-agent"),
        ("rke2", ("server", "--kubelet-arg=root-dir={}"), "rke2 server", "systemctl stop rke2-server rke2-agent"),
        ("k0s", ("worker", "--kubelet-root-dir={}"), "k0s worker", "k0s stop"),
        ("k0s", ("controller", "--enable-worker=true", "--kubelet-root-dir={}"), "k0s --enable-worker", "k0s stop"),
    ],
)
def test_its_process_its_command_and_what_stops_it_are_named(
    root: Path, run: Run, name: str, arguments: tuple[str, ...], command: str, stop: str
) -> None:
    process = run(name, *(each.format(root) for each in arguments))
    found = kubelet_of(root)
    assert found is not None
    assert (found.pid, found.stop) == (process.pid, stop)
    assert found.command.rpartition("/bin/")[2] == command
    assert kubelet_of(root.parent) is None
    _end(process)
    assert kubelet_of(root) is None


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("k3s", ("kubectl", "logs", "server", "--kubelet-arg=root-dir={}")),
        ("k0s", ("controller", "--kubelet-root-dir={}")),
        ("crio", ("--root-dir={}",)),
        ("kubelet", ("--root-dir={}/none",)),
        ("kubelet", ("--volume-plugin-dir={}",)),
        ("kubelet", ("--other-root-dir={}",)),
    ],
)
def test_who_has_no_kubelet_there_is_let_be(root: Path, run: Run, name: str, arguments: tuple[str, ...]) -> None:
    run(name, *(each.format(root) for each in arguments))
    assert kubelet_of(root) is None


def test_a_root_that_is_not_there_is_nobodys(root: Path) -> None:
    assert kubelet_of(root / "none") is None


def test_links_bind_mounts_and_other_mount_namespaces_hide_nothing(tmp_path: Path, root: Path, run: Run) -> None:
    link, bind, there = tmp_path / "link", tmp_path / "bind", tmp_path / "there"
    link.symlink_to(root)
    for path in (bind, there):
        path.mkdir()
    for path, first in ((link, ""), (bind, f"mount --bind {root} {bind}")):
        process = run("kubelet", f"--root-dir={path}", first=first)
        assert kubelet_of(root) is not None
        assert kubelet_of(link) is not None
        assert kubelet_of(bind) is None
        _end(process)
    run("kubelet", f"--root-dir={root}", first=f"mount --bind {there} {root}")
    assert kubelet_of(root) is None
    assert kubelet_of(there) is not None


def test_a_link_counts_as_the_process_sees_it_from_its_own_root_directory(tmp_path: Path, root: Path, run: Run) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    mounts = f"mount --rbind / {inside}; mount -t tmpfs tmpfs {inside}/mnt; mkdir {inside}/mnt/real"
    mounts += f"; mount --bind {root} {inside}/mnt/real; ln -s /mnt/real {inside}/mnt/link; chroot={inside}"
    process = run("kubelet", "--root-dir=/mnt/link", first=mounts)
    found = kubelet_of(root)
    assert found is not None
    assert found.pid == process.pid


@pytest.mark.parametrize(
    ("name", "arguments", "place"),
    [
        ("kubelet", (), "/var/lib/kubelet"),
        ("k3s", ("server",), "/var/lib/kubelet"),
        ("k0s", ("worker",), "/var/lib/k0s/kubelet"),
        ("kubelite", ("--kubelet-args-file=/x",), "/var/snap/microk8s/common/var/lib/kubelet"),
    ],
)
def test_without_an_option_it_has_the_root_of_its_distribution(
    root: Path, run: Run, name: str, arguments: tuple[str, ...], place: str
) -> None:
    run(name, *arguments, first=f"mount -t tmpfs tmpfs /var; mkdir -p {place}; mount --bind {root} {place}")
    assert kubelet_of(root) is not None


def test_k3s_that_hides_its_arguments_is_found_by_its_socket_and_a_node_agent_with_one_is_none(
    tmp_path: Path, root: Path
) -> None:
    (root / "pod-resources").mkdir()
    path = root / "pod-resources/kubelet.sock"
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(path))
        assert kubelet_of(root) is None  # bound, and nobody listens
        agent.listen()
        assert kubelet_of(root) is None
    path.unlink()
    program = tmp_path / "k3s"
    shutil.copy(os.path.realpath(sys.executable), program)
    with ExitStack() as stack:
        process = subprocess.Popen(
            ["/usr/local/bin/k3s server"],
            executable=program,
            env={**os.environ, "PYTHONHOME": sys.base_prefix},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        stack.callback(_end, process)
        assert process.stdin is not None
        process.stdin.write(_LISTEN.format(path=str(path)).encode())
        process.stdin.close()
        process.stdin = None
        _await_line(process)
        assert kubelet_of(root) == kubelet.Kubelet(process.pid, f"{program} server", "systemctl stop k3s k3s-agent")


def test_a_daemon_neither_starts_nor_adopts_while_a_kubelet_has_its_root(tmp_path: Path, run: Run) -> None:
    node = Outside(tmp_path)
    (node.root / "pods/u/volumes").mkdir(parents=True)
    process = run("kubelet", f"--root-dir={node.root}")
    with node.log.open("ab") as log:
        assert subprocess.run(node.argv(), stderr=log, check=False).returncode == 1
    words = f"{node.root}: the kubelet with PID {process.pid} ({tmp_path}/bin/kubelet) has this root; stop it first"
    assert words in node.log_text().splitlines()[-1]
    assert os.listdir(node.root) == ["pods"]
    _end(process)
    node.start(ready=False)
    process = run("kubelet", f"--root-dir={node.root}")
    assert words.rpartition(" with PID")[0] in node.volmgr("adopt", code=1).stderr
    assert f"WRONG kubelet: PID {process.pid} ({tmp_path}/bin/kubelet)" in node.volmgr("doctor", code=1).stdout
    assert not (node.root / "volmgr/root.json").exists()
    _end(process)
    node.volmgr("adopt")
    eventually(lambda: not (node.root / "pods/u").exists())
    assert node.stop() == 0
