"""What the command line promises."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.eventually import eventually
from tests.root.acceptance.outside import BIN, Outside, disk, host_path, memory, pod
from volmgr.cli.app import cli

COMMANDS = (
    ("status",),
    ("status", "shop"),
    ("why", "shop"),
    ("wait", "shop"),
    ("hold", "shop", "--pid", str(os.getpid())),
    ("events",),
    ("plan",),
    ("plugins",),
    ("orphans",),
    ("doctor",),
    ("adopt",),
    ("check", "/dev/null"),
)


def run(*argv: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BIN / "volmgr"), *argv], capture_output=True, text=True, check=False, env={**os.environ, **(env or {})}
    )


def test_socket_and_output_are_taken_before_and_after_every_sub_command(node: Outside) -> None:
    node.put("shop.json", pod("shop", memory()))
    node.wait("shop")
    where, how = ("--socket", str(node.socket)), ("-o", "json")
    for command in COMMANDS:
        first, *rest = command
        # Not each in a process of its own: to start one takes longer than all the rest.
        answers = [
            CliRunner().invoke(cli, [*where, *how, *command]),
            CliRunner().invoke(cli, [*command, *where, *how]),
            CliRunner().invoke(cli, [*how, first, *where, *rest]),
        ]
        for answer in answers:
            assert answer.exit_code == answers[0].exit_code, (command, answer.stderr)
            assert answer.exit_code in ((0, 1) if first == "doctor" else (0,)), (command, answer.stderr)
            for line in answer.stdout.splitlines() if first == "events" else [answer.stdout]:
                json.loads(line)
    assert run(*where, *how, "status").stdout == run("status", *where, *how).stdout
    assert run("status", env={"VOLMGR_SOCKET": str(node.socket)}).returncode == 0
    for each in node.json("status", "shop")["holds"]:
        assert node.json("hold", "shop", "--release", each["id"])["id"] == each["id"]


@pytest.mark.parametrize("name", ["shop", "default/shop", "uid-shop"])
def test_a_pod_is_a_name_a_namespace_with_a_name_or_a_uid(name: str, node: Outside) -> None:
    node.put("shop.json", pod("shop", memory()))
    for command in ("wait", "status", "why"):
        node.volmgr(command, name)
    assert node.json("status", name)["uid"] == "uid-shop"


def test_a_pod_of_another_namespace_needs_it_said(node: Outside) -> None:
    other = pod("shop", memory())
    other["metadata"]["namespace"] = "market"
    node.put("shop.json", other)
    node.volmgr("wait", "market/shop", "--timeout", "30")
    assert "no source has it" in node.volmgr("why", "shop", code=1).stderr
    assert "is known" in node.volmgr("status", "shop", code=1).stderr


def test_a_wait_for_an_unknown_pod_ends_with_1_and_the_reason_on_stderr(node: Outside) -> None:
    for written in ("1", "1s", "1000ms"):
        begin = time.monotonic()
        done = node.volmgr("wait", "nobody", "--timeout", written, code=1)
        assert time.monotonic() - begin > 0.9
        assert "nobody" in done.stderr
        assert not done.stdout


def test_unknown_pods_with_nothing_on_disk_are_unmounted_at_once_and_times_are_taken_as_written(node: Outside) -> None:
    for written in ("30", "30s", "2m", "1h30m"):
        node.volmgr("wait", "nobody", "--for", "unmounted", "--timeout", written)
        assert node.http("GET", f"/v1/pods/nobody/wait?for=unmounted&timeout={written}")[0] == 200
    for written in ("", "x", "-1", "30x", "1 day", "nan", "inf"):
        assert node.volmgr("wait", "nobody", "--for", "unmounted", f"--timeout={written}", code=2).stderr


def test_a_wait_begun_before_the_pod_is_known_ends_when_it_is_mounted(node: Outside) -> None:
    command = [str(BIN / "volmgr"), "--socket", str(node.socket), "wait", "shop"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as waiting:
        node.put("shop.json", pod("shop", memory()))
        assert waiting.wait(60) == 0
    assert str(node.volume("shop")) in node.mounts()


def test_a_wait_at_its_timeout_says_why(node: Outside, tmp_path: Path) -> None:
    node.put("shop.json", pod("shop", host_path(tmp_path / "missing", "Directory")))
    eventually(lambda: "mount failed" in node.volmgr("why", "shop", code=None).stdout)
    done = node.volmgr("wait", "shop", "--timeout", "100ms", code=1)
    assert "unmounted volumes=[v]" in done.stderr
    assert str(tmp_path / "missing") in done.stderr


def test_a_wait_goes_on_over_a_restart_of_the_daemon(node: Outside) -> None:
    command = [str(BIN / "volmgr"), "--socket", str(node.socket), "wait", "shop"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as waiting:
        # The kernel lists the listening socket, and one more for each client of it.
        eventually(lambda: Path("/proc/net/unix").read_text().count(f"{node.socket}\n") > 1)
        node.kill()
        node.start()
        node.put("shop.json", pod("shop", memory()))
        assert waiting.wait(60) == 0


def test_a_command_without_a_daemon_says_where_it_looked(tmp_path: Path) -> None:
    done = run("--socket", str(tmp_path / "none"), "status")
    assert done.returncode == 3
    assert str(tmp_path / "none") in done.stderr
    for text in ("status", "why x", "wait x --timeout 1", "apply -f /dev/null", "delete x", "drain", "adopt", "events"):
        done = run("--socket", str(tmp_path / "none"), *text.split())
        assert done.returncode, text
        assert done.stderr, text


def test_check_reads_files_and_directories_without_a_daemon(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    good, bad = tmp_path / "good.yaml", tmp_path / "d" / "bad.yaml"
    good.write_text(json.dumps(pod("good", memory())))
    wrong = pod("bad", {"name": "v", "emptyDir": {"sizeLimits": "1Mi"}})
    bad.write_text("\n---\n".join(map(json.dumps, [pod("fine", disk()), wrong])))
    (tmp_path / "d" / ".hidden").write_text("{{{")
    (tmp_path / "d" / "saved~").write_text("{{{")
    os.mkfifo(tmp_path / "d" / "fifo")
    nowhere = ("--socket", str(tmp_path / "none"))
    assert run(*nowhere, "check", str(good)).returncode == 0
    done = run(*nowhere, "check", str(good), str(tmp_path / "d"))
    assert done.returncode == 1
    for part in (str(bad), "sizeLimits", "document 2"):
        assert part in done.stdout + done.stderr
    shape = json.loads(run(*nowhere, "-o", "json", "check", str(good), str(tmp_path / "d")).stdout)
    assert [Path(each["file"]).name for each in shape["files"] if each["errors"]] == ["bad.yaml"]
    assert "emptyDir.sizeLimits" in shape["files"][-1]["errors"][0]["field"]
    assert run("check", str(tmp_path / "missing.yaml")).returncode == 1


def test_plan_without_a_daemon_says_what_would_be_done_and_changes_nothing(node: Outside) -> None:
    node.put("shop.json", pod("shop", memory(), memory("w")))
    node.wait("shop")
    assert node.volmgr("plan").returncode == 0
    node.stop()
    offline = ("plan", "--root-dir", str(node.root), "--manifests", str(node.manifests))
    assert run(*offline).returncode == 0
    node.put("more.json", pod("more", memory()))
    before = sorted(str(path) for path in node.root.rglob("*"))
    done = run(*offline, "-o", "json")
    assert done.returncode == 2, done.stderr
    plan = json.loads(done.stdout)
    assert [(each["verb"], each["pod"]) for each in plan["operations"]] == [("mount", "default/more")], plan
    assert plan["operations"][0]["reason"]
    (node.manifests / "shop.json").unlink()
    plan = json.loads(run(*offline, "-o", "json").stdout)
    verbs = sorted((each["verb"], each["pod_uid"]) for each in plan["operations"])
    assert verbs == [("mount", "uid-more"), ("unmount", "uid-shop"), ("unmount", "uid-shop")], plan
    assert sorted(str(path) for path in node.root.rglob("*")) == before
    node.start()


def test_plan_of_an_empty_place_has_no_work(tmp_path: Path) -> None:
    (tmp_path / "manifests").mkdir()
    done = run("plan", "--root-dir", str(tmp_path / "none"), "--manifests", str(tmp_path / "manifests"))
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "none").exists()


def test_plan_with_a_daemon_that_cannot_do_it_yet_ends_with_2(node: Outside, tmp_path: Path) -> None:
    node.put("shop.json", pod("shop", host_path(tmp_path / "missing", "Directory")))
    eventually(lambda: "mount failed" in node.volmgr("why", "shop", code=None).stdout)
    done = node.json("plan", code=2)
    assert done["operations"][0]["verb"] == "mount"
    assert done["operations"][0]["delayed"]


def test_events_are_flushed_line_by_line(node: Outside) -> None:
    heeding = ["env", "--default-signal=INT"]  # a shell lets what it runs in the background ignore it
    command = [*heeding, str(BIN / "volmgr"), "--socket", str(node.socket), "events", "-f", "-o", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        node.put("shop.json", pod("shop", memory()))
        for line in following.stdout:
            event = json.loads(line)
            if event["pod"] == "default/shop" and event["reason"] == "SuccessfulMountVolume":
                break
        following.send_signal(signal.SIGINT)
        assert following.wait(60) == 130


def test_apply_and_delete(node: Outside, tmp_path: Path) -> None:
    file = tmp_path / "api.yaml"
    file.write_text(json.dumps(pod("shop", memory())))
    assert node.json("apply", "-f", str(file))["results"][0]["action"] == "created"
    assert node.json("apply", "-f", str(file))["results"][0]["action"] == "unchanged"
    node.wait("shop")
    node.volmgr("apply", "-f", "-", text=json.dumps(pod("other", disk())))
    node.put("file.json", pod("file", disk()))
    node.wait("file")
    assert str(node.manifests / "file.json") in node.volmgr("delete", "file", code=1).stderr
    node.volmgr("delete", "shop")
    node.wait("shop", "unmounted")
    node.volmgr("delete", "shop", code=1)
    assert "nobody" in node.volmgr("delete", "nobody", code=1).stderr
