"""What the daemon promises about its start, its end, its socket and its log."""

import json
import os
import signal
import socket
import stat
import subprocess
import time
from pathlib import Path

from tests.eventually import PATIENCE, eventually
from tests.root.acceptance.outside import BIN, Outside, disk, memory, pod

NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")


def test_a_second_daemon_on_the_same_root_ends_at_once_naming_the_first(node: Outside, tmp_path: Path) -> None:
    begin = time.monotonic()
    argv = [str(BIN / "volmgrd"), "--root-dir", str(node.root), "--socket", str(tmp_path / "second.sock")]
    second = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert second.returncode == 1
    assert str(node.pid) in second.stderr
    assert "Traceback" not in second.stderr
    assert time.monotonic() - begin < 5
    third = subprocess.run(node.argv(), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert third.returncode == 1
    link = tmp_path / "link"
    link.symlink_to(node.root)
    argv[2] = str(link)
    assert str(node.pid) in subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=False).stderr
    node.volmgr("status")


def test_sigterm_exits_0_and_leaves_volumes_mounted_and_drain_does_not(node: Outside) -> None:
    node.put("shop.json", pod("shop", memory(), disk("d")))
    node.wait("shop")
    before = node.mounts()
    assert node.stop() == 0
    assert node.mounts() == before
    node.start()
    assert node.mounts() == before
    node.volmgr("drain")
    assert not node.mounts()
    assert node.stop() == 0
    node.start()
    node.wait("shop")
    assert len(node.mounts()) == 1


def test_sigterm_ends_it_whichever_thread_the_kernel_interrupts(node: Outside) -> None:
    node.put("shop.json", pod("shop", memory()))
    node.wait("shop")
    main = Path(f"/proc/{node.pid}/wchan")
    eventually(lambda: "epoll" in main.read_text(), "nothing is at work")
    threads = {int(each) for each in os.listdir(f"/proc/{node.pid}/task")} - {node.pid}
    os.kill(max(threads), signal.SIGTERM)  # to the process, but this thread gets it
    assert node.daemon is not None
    assert node.daemon.wait(PATIENCE) == 0
    node.start()


def test_the_socket_is_for_root_alone(node: Outside) -> None:
    assert stat.S_IMODE(node.socket.stat().st_mode) == 0o600
    node.top.chmod(0o755)
    for parent in node.top.parents:
        if parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o011)
    node.socket.chmod(0o666)
    code = (
        "import socket,sys\n"
        "s=socket.socket(socket.AF_UNIX);s.connect(sys.argv[1])\n"
        "s.sendall(b'GET /v1/pods HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n');print(s.recv(4096).decode())"
    )
    argv = [*NOBODY, "/usr/bin/python3", "-c", code, str(node.socket)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("HTTP/1.1 403"), done
    node.volmgr("status")


def test_get_root_lists_the_paths_of_the_api(node: Outside) -> None:
    status, body = node.http("GET", "/")
    assert status == 200
    paths = {(each["method"], each["path"]) for each in json.loads(body)["paths"]}
    assert {("GET", "/readyz"), ("GET", "/v1/pods"), ("POST", "/v1/pods"), ("GET", "/healthz")} <= paths
    for method, path in sorted(paths):
        if method == "GET" and "{" not in path:
            assert node.http("GET", path)[0] == 200, path
    assert node.http("GET", "/nothing")[0] == 404
    assert node.http("PUT", "/v1/pods", b"")[0] == 405


def test_logs_go_to_stderr_alone_and_json_lines_parse(tmp_path: Path) -> None:
    node = Outside(tmp_path)
    node.put_text("broken.yaml", "kind: [")
    argv = node.argv(*node.options, "--log-format", "json", "--verbose")
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as daemon:
        eventually(node.answers)
        node.put("shop.json", pod("shop", memory()))
        node.wait("shop")
        node.volmgr("drain")
        daemon.terminate()
        out, err = daemon.communicate(timeout=PATIENCE)
    assert daemon.returncode == 0
    assert not out
    lines = [json.loads(line) for line in err.splitlines()]
    assert lines
    assert all({"time", "level", "message", "logger"} <= line.keys() for line in lines)
    assert any("broken.yaml" in line["message"] for line in lines)


def test_a_wrong_configuration_is_refused_by_name(tmp_path: Path) -> None:
    node = Outside(tmp_path)
    file = tmp_path / "config.yaml"
    for text, name in (
        ("workerz: 3", "workerz"),
        ("workers: -1", "workers"),
        ("workers: 1\nworkers: 2", "workers"),
        ("backoff_initial: 1 parsec", "backoff_initial"),
        ("a: [", str(file)),
    ):
        file.write_text(text)
        done = subprocess.run(
            node.argv("--config", str(file)), capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 1
        assert name in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr


def test_readyz_is_503_while_the_manifests_directory_is_missing_and_nothing_is_unmounted(node: Outside) -> None:
    node.put("shop.json", pod("shop", memory()))
    node.wait("shop")
    assert node.http("GET", "/readyz")[0] == 200
    before = node.mounts()
    away = node.manifests.rename(node.top / "away")
    eventually(lambda: node.http("GET", "/readyz")[0] == 503)
    assert str(node.manifests) in node.http("GET", "/readyz")[1].decode()
    node.kill()
    node.start(ready=False)
    assert node.http("GET", "/readyz")[0] == 503
    eventually(lambda: str(node.manifests) in node.http("GET", "/readyz")[1].decode())
    assert node.mounts() == before
    api = json.dumps(pod("api", memory())).encode()
    assert node.http("POST", "/v1/pods", api)[0] == 200
    node.wait("api")
    assert before.items() <= node.mounts().items()
    node.volmgr("delete", "api")
    away.rename(node.manifests)
    eventually(lambda: node.http("GET", "/readyz")[0] == 200)
    node.wait("api", "unmounted")
    assert node.mounts() == before


def test_a_root_that_is_a_link_works(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "root").symlink_to("real")
    with Outside(tmp_path) as node:
        node.put("shop.json", pod("shop", memory()))
        node.wait("shop")
        assert list(node.mounts()) == [str(tmp_path / "real/pods/uid-shop/volumes/kubernetes.io~empty-dir/v")]
        node.kill()
        node.start()
        (node.manifests / "shop.json").unlink()
        node.wait("shop", "unmounted")
        assert not list((tmp_path / "real" / "pods").iterdir())


def test_paths_on_disk_are_kubelets(node: Outside) -> None:
    old = os.umask(0o077)
    try:
        node.put("shop.json", pod("shop", memory(), disk("d")))
        node.wait("shop")
    finally:
        os.umask(old)
    for name in ("v", "d"):
        assert stat.S_IMODE(node.volume("shop", name).stat().st_mode) == 0o777
        marker = node.root / "pods/uid-shop/plugins/kubernetes.io~empty-dir" / name / "ready"
        assert marker.is_file()
        assert marker.stat().st_size == 0
        assert stat.S_IMODE(marker.parent.stat().st_mode) == 0o750
    for path in ("pods/uid-shop", "pods/uid-shop/volumes"):
        assert stat.S_IMODE((node.root / path).stat().st_mode) == 0o750, path


def test_a_socket_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for where, what in ((tmp_path / "file", "socket"), (tmp_path / ("x" * 120), "long"), (tmp_path / "file/s", "file")):
        argv = [str(BIN / "volmgrd"), "--root-dir", str(tmp_path / "root"), "--socket", str(where)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 1, where
        assert what in done.stderr, done.stderr
        assert "Traceback" not in done.stderr
    assert (tmp_path / "file").is_file()


def test_a_stale_socket_of_a_dead_daemon_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "api.sock"))
    with Outside(tmp_path) as node:
        node.volmgr("status")
