"""What a Pod's life promises: identity, holds, termination, busy mounts."""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.eventually import eventually
from tests.root.acceptance.outside import BIN, Outside, disk, host_path, memory, pod


@contextmanager
def process_in(directory: Path) -> Generator[subprocess.Popen[bytes]]:
    code = "import sys; print('here', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_a_file_replaced_under_the_same_uid_is_an_update(node: Outside) -> None:
    first = pod("shop", memory())
    first["metadata"] |= {"labels": {"a": "1"}, "annotations": {"b": "1"}}
    node.put("shop.json", first)
    node.wait("shop")
    before = node.mounts()
    first["metadata"] |= {"labels": {"a": "2"}, "annotations": {"b": "2"}}
    node.put("shop.json", first)
    record = node.root / "volmgr/pods/uid-shop.json"
    eventually(lambda: '"2"' in record.read_text())
    assert node.mounts() == before
    assert not node.json("why", "shop")["pods"][0]["complaints"]


def test_another_uid_means_that_the_old_pod_goes_and_the_new_one_comes(node: Outside) -> None:
    node.put("shop.json", pod("shop", memory(), disk("d"), uid="one"))
    node.wait("one")
    node.put("shop.json", pod("shop", memory(), uid="two"))
    node.wait("two")
    node.wait("one", "unmounted")
    eventually(lambda: list((node.root / "pods").iterdir()) == [node.root / "pods/two"])
    assert node.json("status", "shop")["uid"] == "two"


def test_the_volumes_of_a_living_pod_cannot_be_changed(node: Outside) -> None:
    node.put("shop.json", pod("shop", memory()))
    node.wait("shop")
    before = node.mounts()
    node.put("shop.json", pod("shop", disk()))
    eventually(lambda: node.json("why", "shop")["pods"][0]["complaints"])
    text = node.volmgr("why", "shop").stdout
    assert "living Pod" in text
    assert "shop.json" in text
    assert node.mounts() == before


def test_a_terminating_pod_goes_when_its_last_hold_does(node: Outside) -> None:
    node.put("held.json", pod("held", memory()))
    node.put("free.json", pod("free", memory()))
    node.wait("held")
    node.wait("free")
    with process_in(Path("/")) as process:
        node.volmgr("hold", "held", "--pid", str(process.pid))
        for name in ("held", "free"):
            leaving = pod(name, memory())
            leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            node.put(f"{name}.json", leaving)
        node.wait("free", "unmounted")
        assert node.json("status", "held")["state"] == "leaving"
        assert str(process.pid) in node.volmgr("why", "held").stdout
        node.kill()
        node.start()
        assert str(process.pid) in node.volmgr("why", "held").stdout
        assert list(node.mounts()) == [str(node.volume("held"))]
    node.wait("held", "unmounted")


def test_a_removed_pod_stays_while_a_process_holds_it(node: Outside) -> None:
    file = node.put("shop.json", pod("shop", memory()))
    node.wait("shop")
    with process_in(Path("/")) as process:
        made = node.json("hold", "default/shop", "--pid", str(process.pid))
        assert made["pid"] == process.pid
        file.unlink()
        eventually(lambda: node.json("status", "shop")["state"] == "leaving")
        node.kill()
        node.start()
        assert node.volmgr("wait", "shop", "--for", "unmounted", "--timeout", "500ms", code=1).stderr
        assert node.mounts()
        assert str(process.pid) in node.volmgr("why", "shop").stdout
    node.wait("shop", "unmounted")
    assert not node.mounts()


def test_a_hold_with_a_command_lasts_as_long_as_it(node: Outside) -> None:
    file = node.put("shop.json", pod("shop", memory()))
    node.wait("shop")
    command = [
        str(BIN / "volmgr"),
        "--socket",
        str(node.socket),
        "hold",
        "shop",
        "--",
        "sh",
        "-c",
        "echo up; read x; exit 7",
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"up\n"
        assert node.json("status", "shop")["holds"][0]["pid"] == holder.pid
        file.unlink()
        eventually(lambda: node.json("status", "shop")["state"] == "leaving")
        assert node.mounts()
        holder.stdin.write(b"\n")
        holder.stdin.close()
        assert holder.wait(20) == 7
    node.wait("shop", "unmounted")


def test_hold_says_what_it_cannot_do(node: Outside) -> None:
    assert node.volmgr("hold", "nobody", "--pid", "1", code=1).stderr
    node.put("shop.json", pod("shop", memory()))
    node.wait("shop")
    assert node.volmgr("hold", "shop", "--pid", "4194304", code=1).stderr
    assert node.volmgr("hold", "shop", code=2).stderr
    assert node.volmgr("hold", "shop", "--", "/no/such/command", code=127).stderr
    eventually(lambda: not node.json("status", "shop")["holds"])


def test_why_names_who_keeps_a_mount_busy_after_the_file_is_gone(node: Outside) -> None:
    file = node.put("shop.json", pod("shop", memory()))
    node.wait("shop")
    with process_in(node.volume("shop")) as process:
        file.unlink()
        eventually(lambda: str(process.pid) in node.volmgr("why", "shop", code=None).stdout)
        for name in ("shop", "default/shop", "uid-shop"):
            text = node.volmgr("why", name).stdout
            assert str(process.pid) in text
            assert "in use" in text
        assert str(node.volume("shop")) in node.mounts()
        assert os.readlink(f"/proc/{process.pid}/cwd") == str(node.volume("shop"))
        report = node.json("why", "shop")["pods"][0]
        assert report["state"] == "leaving"
        (volume,) = report["volumes"]
        assert volume["step"] == "unmount"
        assert volume["attempts"] >= 1
        assert volume["since"]
        assert volume["next_retry"]
        done = node.volmgr("wait", "shop", "--for", "unmounted", "--timeout", "1", code=1)
        assert str(process.pid) in done.stderr
    node.wait("shop", "unmounted")
    assert not node.mounts()
    assert not list((node.root / "pods").iterdir())


def test_finished_pods_are_torn_down_unless_configured_and_a_held_one_never(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    done = pod("done", memory())
    done["status"] = {"phase": "Succeeded"}
    with Outside(tmp_path / "one") as node, process_in(Path("/")) as process:
        node.put("done.json", done)
        node.put("run.json", pod("run", memory()))
        node.wait("run")
        node.wait("done", "unmounted")
        assert list(node.mounts()) == [str(node.volume("run"))]
        node.volmgr("hold", "run", "--pid", str(process.pid))
        run = pod("run", memory())
        run["status"] = {"phase": "Failed"}
        node.put("run.json", run)
        eventually(lambda: node.json("status", "run")["state"] != "mounted")
        assert list(node.mounts()) == [str(node.volume("run"))]
    (tmp_path / "config.yaml").write_text("keep_terminated_pod_volumes: true")
    with Outside(tmp_path / "two", "--config", str(tmp_path / "config.yaml")) as node:
        node.put("done.json", done)
        node.wait("done")
        assert node.mounts()


def test_a_pod_without_a_uid_keeps_it_when_its_file_moves(node: Outside) -> None:
    anonymous = pod("shop", memory())
    del anonymous["metadata"]["uid"]
    node.put("a.json", anonymous)
    node.wait("shop")
    uid = node.json("status", "shop")["uid"]
    before = node.mounts()
    (node.manifests / "a.json").rename(node.manifests / "b.json")
    eventually(lambda: node.json("status", "shop")["origin"].endswith("b.json"))
    assert node.json("status", "shop")["uid"] == uid
    assert node.mounts() == before


def test_a_mount_that_somebody_took_is_made_again_and_said(node: Outside) -> None:
    node.put("shop.json", pod("shop", memory()))
    node.wait("shop")
    subprocess.run(["umount", node.volume("shop")], check=True)
    eventually(lambda: str(node.volume("shop")) in node.mounts())
    eventually(lambda: "vanished" in node.volmgr("events").stdout)
    subprocess.run(["mount", "-o", "remount,ro", node.volume("shop")], check=True)
    eventually(lambda: "read-only" in node.volmgr("why", "shop").stdout + node.volmgr("events").stdout)


def test_mounts_that_somebody_made_below_a_volume_go_with_it_and_what_they_show_stays(node: Outside) -> None:
    source = node.top / "source"
    source.mkdir()
    (source / "file").write_text("theirs")
    for name, volume in (("mem", memory()), ("dsk", disk())):
        file = node.put(f"{name}.json", pod(name, volume))
        node.wait(name)
        below = node.volume(name) / "below"
        below.mkdir()
        subprocess.run(["mount", "--bind", source, below], check=True)
        file.unlink()
        node.wait(name, "unmounted")
        assert not node.mounts()
        assert (source / "file").read_text() == "theirs"


def test_what_was_unmounted_while_the_daemon_was_down_is_made_again_and_disks_keep_their_files(node: Outside) -> None:
    node.put("shop.json", pod("shop", memory(), disk("d")))
    node.wait("shop")
    (node.volume("shop", "d") / "file").write_text("kept")
    node.kill()
    subprocess.run(["umount", node.volume("shop")], check=True)
    node.start()
    node.wait("shop")
    assert list(node.mounts()) == [str(node.volume("shop"))]
    assert (node.volume("shop", "d") / "file").read_text() == "kept"


def test_a_pod_that_left_while_the_daemon_was_down_goes_at_its_start(node: Outside) -> None:
    file = node.put("shop.json", pod("shop", memory(), disk("d")))
    node.put("stay.json", pod("stay", host_path("/tmp")))
    node.wait("shop")
    node.kill()
    file.unlink()
    node.start()
    node.wait("shop", "unmounted")
    assert not node.mounts()
    eventually(lambda: not list((node.root / "pods").iterdir()))


def test_only_volumes_that_some_container_uses_are_mounted(node: Outside) -> None:
    used = ("init", "side", "main", "ephemeral")
    kinds = [memory(name) for name in (*used, "unused")]
    shop = pod("shop", *kinds)
    shop["spec"] |= {
        "containers": [{"name": "main", "volumeMounts": [{"name": "main", "mountPath": "/m"}]}],
        "initContainers": [
            {"name": "init", "volumeMounts": [{"name": "init", "mountPath": "/i"}]},
            {"name": "side", "restartPolicy": "Always", "volumeMounts": [{"name": "side", "mountPath": "/s"}]},
        ],
        "ephemeralContainers": [{"name": "e", "volumeMounts": [{"name": "ephemeral", "mountPath": "/e"}]}],
    }
    node.put("shop.json", shop)
    node.wait("shop")
    assert sorted(node.mounts()) == sorted(str(node.volume("shop", name)) for name in used)
    assert not node.volume("shop", "unused").exists()
    assert json.dumps(node.json("status", "shop")).count('"unused"') == 0
