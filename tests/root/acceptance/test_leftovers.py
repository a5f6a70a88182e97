"""What is promised about things on disk that no Pod wants: orphans, foreign roots, missing types, odd names."""

import json
import subprocess
from pathlib import Path

from tests.eventually import PATIENCE, eventually
from tests.root.acceptance.outside import EMPTY_DIR, Outside, disk, memory, pod


def orphans(node: Outside) -> dict[str, str]:
    return {each["path"]: each["pod_uid"] for each in node.json("orphans")["orphans"]}


def test_what_is_left_of_unknown_pods_goes_or_is_kept_and_named(node: Outside, tmp_path: Path) -> None:
    node.stop()
    pods = node.root / "pods"
    empty = pods / "empty/volumes/example.com~thing/v"
    empty.mkdir(parents=True)
    full = pods / "full/volumes/example.com~thing/v"
    full.mkdir(parents=True)
    (full / "file").write_text("theirs")
    mounted = pods / "mounted/volumes/kubernetes.io~rbd/v"
    mounted.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", mounted], check=True)
    (mounted / "file").write_text("theirs")
    source = tmp_path / "source"
    source.mkdir()
    (source / "file").write_text("theirs")
    for number in range(2):
        bind = pods / f"bound/volume-subpaths/v/main/{number}"
        bind.parent.mkdir(parents=True, exist_ok=True)
        bind.mkdir() if number else bind.touch()
        subprocess.run(["mount", "--bind", source if number else source / "file", bind], check=True)
    busy = pods / "busy/volume-subpaths/v/main/0"
    busy.mkdir(parents=True)
    subprocess.run(["mount", "--bind", source, busy], check=True)
    (pods / "stray").mkdir()
    node.start()
    eventually(lambda: sorted(path.name for path in pods.iterdir()) == ["full", "mounted"])
    assert sorted(node.mounts()) == [str(mounted)]
    assert (source / "file").read_text() == "theirs"
    assert (full / "file").read_text() == "theirs"
    found = orphans(node)
    assert {"full", "mounted"} == set(found.values())
    assert str(full) in found
    assert str(mounted) in found
    text = node.volmgr("orphans").stdout
    for part in ("full", "mounted", str(full), "kubernetes.io/rbd"):
        assert part in text, text
    node.volmgr("wait", "full", "--for", "unmounted", "--timeout", "1", code=None)
    node.volmgr("wait", "mounted", "--for", "unmounted", "--timeout", "1", code=1)
    subprocess.run(["umount", mounted], check=True)
    (full / "file").unlink()
    full.rmdir()
    node.stop()
    node.start()
    eventually(lambda: not list(pods.iterdir()))
    assert not orphans(node)


def test_a_foreign_root_is_left_alone_until_it_is_adopted(tmp_path: Path) -> None:
    node = Outside(tmp_path)
    pods = node.root / "pods"
    for uid in ("stays", "goes"):
        for volume in ("mem", "dsk"):
            (pods / uid / "volumes" / EMPTY_DIR / volume).mkdir(parents=True)
            ready = pods / uid / "plugins" / EMPTY_DIR / volume / "ready"
            ready.parent.mkdir(parents=True)
            ready.touch()
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", pods / uid / "volumes" / EMPTY_DIR / "mem"], check=True)
        (pods / uid / "volumes" / EMPTY_DIR / "dsk" / "file").write_text("x")
        (pods / uid / "etc-hosts").write_text("kubelet's")
        (pods / uid / "containers" / "main").mkdir(parents=True)
    before = sorted(str(path) for path in pods.rglob("*"))
    mounts = node.mounts()
    node.put("stays.json", pod("stays", memory("mem"), disk("dsk"), uid="stays"))
    node.put("new.json", pod("new", memory()))
    node.start(ready=False)
    eventually(lambda: "stays" in list(node.uids()))
    assert sorted(str(path) for path in pods.rglob("*")) == before
    assert node.mounts() == mounts
    assert "adopt" in node.volmgr("doctor", code=1).stdout
    assert "adopt" in node.volmgr("wait", "new", "--timeout", "500ms", code=1).stderr
    plan = node.json("plan", code=None)["operations"]
    assert all(each["delayed"] for each in plan)
    node.kill()
    node.start(ready=False)
    assert node.mounts() == mounts
    node.volmgr("adopt")
    node.wait("stays")
    node.wait("new")
    node.volmgr("wait", "goes", "--for", "unmounted")
    assert (pods / "stays/volumes" / EMPTY_DIR / "dsk/file").read_text() == "x"
    assert {path: row.split()[0] for path, row in node.mounts().items() if "stays" in path} == {
        path: row.split()[0] for path, row in mounts.items() if "stays" in path
    }
    assert not (pods / "goes/volumes" / EMPTY_DIR / "mem").exists()
    assert not (pods / "goes/volumes" / EMPTY_DIR / "dsk").exists()
    assert (pods / "goes/etc-hosts").exists()
    assert "goes" in orphans(node).values()
    node.kill()
    node.start()
    node.wait("stays")
    node.volmgr("drain")
    node.stop()


ODD_NAMES = ("a/b", "..", "a b", "a\nb", "a\0b", "x" * 300)
ODD = (
    *(("volume", name) for name in (*ODD_NAMES, "a~b", ".", "", "A")),
    *(("uid", name) for name in (*ODD_NAMES, ".", "../../x")),
    *(("name", name) for name in (*ODD_NAMES, "a~b", "")),
    *(("namespace", name) for name in ODD_NAMES),
)


def test_names_that_cannot_be_are_refused_and_leave_nothing(node: Outside) -> None:
    for number, (field, name) in enumerate(ODD):
        shop = pod(f"odd{number}", memory(name if field == "volume" else "v"))
        if field != "volume":
            shop["metadata"][field] = name
        node.put(f"odd{number}.yaml", shop, pod(f"fine{number}", disk()))
        assert node.http("POST", "/v1/pods", json.dumps(shop).encode())[0] == 422, (field, name)
    for number in range(len(ODD)):
        node.wait(f"fine{number}")
    assert sorted(node.uids()) == sorted(f"uid-fine{number}" for number in range(len(ODD)))
    assert sorted(path.name for path in (node.root / "pods").iterdir()) == sorted(node.uids())
    lines = node.log_text().splitlines()
    for number in range(len(ODD)):
        assert sum(f"odd{number}.yaml: document 1: " in line for line in lines) == 1
    assert len(lines) == len(ODD) + 1, lines
    assert not node.mounts()


def test_a_volume_name_twice_is_refused(node: Outside) -> None:
    node.put("twice.json", pod("twice", memory(), disk()))
    eventually(lambda: "twice.json" in node.log.read_text())
    assert "spec.volumes[1].name" in node.log.read_text()


def test_drain_names_what_is_left(node: Outside) -> None:
    node.put("shop.json", pod("shop", memory()))
    node.wait("shop")
    with subprocess.Popen(["sleep", "1000"], cwd=node.volume("shop")) as child:
        done = node.volmgr("drain", "--timeout", "1s", code=1)
        assert "shop" in done.stdout + done.stderr
        assert str(child.pid) in node.volmgr("why", "shop", code=None).stdout
        child.kill()
    node.volmgr("drain")


def test_a_full_disk_and_a_read_only_root_are_said_and_lose_nothing(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", root], check=True)
    with Outside(tmp_path) as node:
        node.put("shop.json", pod("shop", memory(), disk("d")))
        node.wait("shop")
        before = node.mounts()
        subprocess.run(["dd", "if=/dev/zero", f"of={root / 'filler'}", "bs=4k"], check=False, capture_output=True)
        assert node.http("POST", "/v1/pods", json.dumps(pod("api", memory())).encode())[0] >= 400
        node.put("late.json", pod("late", memory()))
        eventually(lambda: "No space left" in node.log_text())
        assert node.mounts() == before
        (root / "filler").unlink()
        node.wait("late")
        node.kill()
        subprocess.run(["mount", "-o", "remount,ro", root], check=True)
        done = subprocess.run(node.argv(*node.options), capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 1
        assert "ead-only file system" in done.stderr
        assert before.items() <= node.mounts().items()
        subprocess.run(["mount", "-o", "remount,rw", root], check=True)
        node.start()
        assert before.items() <= node.mounts().items()
    subprocess.run(["umount", root], check=True)
