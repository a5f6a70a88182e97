"""Each sub-command against a served engine: what it prints, and how it exits."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.flow.server.engines import FakeEngine, serving
from tests.unit.core.packages import site
from tests.unit.report.worlds import add_pod, fail, make_pod, mounted, run
from volmgr.broken import Broken
from volmgr.cli.app import cli
from volmgr.cli.client import Client, Refused
from volmgr.errors import ManifestError
from volmgr.model.driver_info import DriverInfo
from volmgr.model.meta import ObjectMeta
from volmgr.model.objects import PersistentVolumeClaim, ref_of
from volmgr.model.quantity import Quantity
from volmgr.model.volume import ClaimRef, PersistentVolume
from volmgr.operations import Verb
from volmgr.plugin import Searched
from volmgr.report.events import Severity
from volmgr.report.world import ObjectEntry, Orphan, ServerReading
from volmgr.volume_type import Origin


def volmgr(client: Client, *words: str, data: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["--socket", client.path, *words], input=data)


def test_status_is_a_table_in_plain_columns(client: Client, engine: FakeEngine) -> None:
    pod = make_pod("web", "a")
    add_pod(engine.world, pod)
    mounted(engine.world, pod, "a")
    result = volmgr(client, "status")
    assert result.exit_code == 0
    assert [line.split() for line in result.output.splitlines()] == [
        ["NAMESPACE", "NAME", "STATE", "VOLUMES", "SOURCE", "REASON"],
        ["default", "web", "mounted", "1/1", "/manifests/web.yaml"],
    ]


def test_status_of_one_pod_shows_paths_and_what_is_wrong(client: Client, engine: FakeEngine) -> None:
    pod = make_pod("web", "a", "b")
    add_pod(engine.world, pod)
    mounted(engine.world, pod, "a")
    fail(engine.world, pod, "b", "no space left")
    output = volmgr(client, "status", "web").output
    assert "/var/lib/volmgr/pods/uid-web/volumes/kubernetes.io~empty-dir/a" in output
    assert "no space left" in output


def test_status_without_pods_says_so(client: Client, engine: FakeEngine) -> None:
    engine.world.reconstructed = False
    assert volmgr(client, "status").output == "not ready: reconstruction is not done\nno Pods\n"


def test_status_says_that_the_node_is_drained(client: Client, engine: FakeEngine) -> None:
    engine.world.draining = True
    drained = "the node is drained: nothing is mounted until volmgrd is started again"
    assert volmgr(client, "status").output == f"{drained}\nno Pods\n"


def test_status_and_claims_name_the_files_that_were_refused(client: Client, engine: FakeEngine) -> None:
    engine.world.complaints["/m/web.yaml"] = (ManifestError("is empty", file="/m/web.yaml", document=2),)
    refused = "refused: /m/web.yaml: document 2: is empty\n"
    assert volmgr(client, "status").output == f"no Pods\n{refused}"
    assert volmgr(client, "claims").output == f"no claims, and no PersistentVolumes\n{refused}"


@pytest.mark.parametrize("words", [("-o", "json", "status"), ("status", "-o", "json"), ("status", "--output", "json")])
def test_json_may_be_asked_for_before_and_after_the_command(client: Client, words: tuple[str, ...]) -> None:
    assert json.loads(volmgr(client, *words).output) == {
        "ready": True,
        "reasons": [],
        "pods": [],
        "complaints": [],
        "contact": [],
        "reading": None,
        "drained": False,
    }


def test_the_socket_may_be_named_after_the_command(client: Client) -> None:
    result = CliRunner().invoke(cli, ["--socket", "/wrong", "status", "--socket", client.path])
    assert result.exit_code == 0


def test_why_works_while_a_pod_leaves_and_names_the_pids(client: Client, engine: FakeEngine) -> None:
    pod = make_pod("web", "a")
    add_pod(engine.world, pod, leaving=True)
    mounted(engine.world, pod, "a")
    fail(engine.world, pod, "a", "cannot unmount: busy; held by 4711 (sleep)", Verb.UNMOUNT)
    result = volmgr(client, "why", "web")
    assert result.exit_code == 0
    assert "4711 (sleep)" in result.output


def test_why_of_an_unknown_pod_exits_with_1(client: Client) -> None:
    result = volmgr(client, "why", "web")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Pod web: no source has it" in result.stderr


def test_why_of_a_claim_answers_and_exits_with_1_where_there_is_none(client: Client, engine: FakeEngine) -> None:
    bound = PersistentVolumeClaim(metadata=ObjectMeta(name="c"), volume_name="v", phase="Bound")
    engine.world.objects[ref_of(bound)] = ObjectEntry(item=bound, revision="1", origin="/m/c.yaml")
    result = volmgr(client, "why", "pvc/default/c")
    assert (result.exit_code, result.output.splitlines()[0]) == (0, "claim default/c: Bound, with pv/v")
    result = volmgr(client, "why", "pvc/d")
    assert (result.exit_code, "claim default/d: no source has it" in result.stderr) == (1, True)


def test_wait_exits_with_0_when_reached_and_1_with_the_reason_on_stderr(client: Client, engine: FakeEngine) -> None:
    pod = make_pod("web", "a")
    add_pod(engine.world, pod)
    result = volmgr(client, "wait", "web", "--timeout", "0")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "unmounted volumes=[a]" in result.stderr
    mounted(engine.world, pod, "a")
    assert volmgr(client, "wait", "web", "--for", "mounted", "--timeout", "2m").exit_code == 0
    assert volmgr(client, "wait", "nobody", "--for", "unmounted").exit_code == 0


def test_wait_goes_on_when_the_daemon_comes_back(engine: FakeEngine, path: Path) -> None:
    results: list[bytes] = []
    client = Client(str(path))
    with serving(engine, path) as served:
        thread = threading.Thread(target=lambda: results.append(client.wait("web", "mounted", 30)))
        thread.start()
        while not engine.asked:
            os.sched_yield()
    served.drop_clients()
    again = FakeEngine()
    pod = make_pod("web", "a")
    add_pod(again.world, pod)
    mounted(again.world, pod, "a")
    with serving(again, path):
        thread.join()
        client.close()
    assert json.loads(results[0]) == {"reached": "mounted"}


def test_apply_sends_each_file_and_says_what_became_of_it(client: Client, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("kind: Pod")
    bad.write_text("broken")
    result = volmgr(client, "apply", "-f", str(bad), "-f", str(good))
    assert result.exit_code == 1
    assert result.stdout == "Pod default/web created (uid-web)\n"
    assert result.stderr == f"volmgr: {bad}: document 2: spec: is no Pod; write one\n"
    assert volmgr(client, "apply", "-f", "-", data="kind: Pod").exit_code == 0


def test_delete_gives_the_uid_and_names_the_file_of_a_pod_that_has_one(client: Client, engine: FakeEngine) -> None:
    add_pod(engine.world, make_pod("web"))
    assert volmgr(client, "delete", "web").output == "Pod web (uid-web) deleted\n"
    result = volmgr(client, "delete", "filed")
    assert result.exit_code == 1
    assert "/manifests/filed.yaml" in result.stderr


def test_a_hold_is_made_for_a_process_and_given_back(client: Client, engine: FakeEngine) -> None:
    add_pod(engine.world, make_pod("web"))
    assert volmgr(client, "hold", "--pid", "77", "web").output == "web: held by PID 77 (h1)\n"
    assert volmgr(client, "hold", "web", "--pid", "78").output == "web: held by PID 78 (h1)\n"
    assert volmgr(client, "hold", "--release", "h1", "web").exit_code == 0
    assert volmgr(client, "hold", "web", "--pid", "79").exit_code == 0
    assert json.loads(volmgr(client, "hold", "--release", "h1", "web", "-o", "json").stdout) == {"id": "h1"}
    assert volmgr(client, "hold", "--pid", "77", "nobody").exit_code == 1


def test_a_held_command_runs_as_the_process_that_was_registered(client: Client, engine: FakeEngine) -> None:
    entry = add_pod(engine.world, make_pod("web"))
    argv = [
        sys.executable,
        "-m",
        "volmgr.cli",
        "--socket",
        client.path,
        "hold",
        "web",
        "--",
        "sh",
        "-c",
        "echo $$; exit 7",
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 7
    assert entry.holds["h1"].pid == int(done.stdout)
    assert entry.holds["h1"].who == "sh -c 'echo $$; exit 7'"


def test_a_held_command_that_does_not_exist_gives_its_hold_back(client: Client, engine: FakeEngine) -> None:
    entry = add_pod(engine.world, make_pod("web"))
    result = volmgr(client, "hold", "web", "--", "no-such-command")
    assert result.exit_code == 127
    assert entry.holds == {}


def test_drain_exits_with_1_when_something_is_left(client: Client, engine: FakeEngine) -> None:
    assert volmgr(client, "drain").output == "nothing is mounted any more\n"
    engine.left = ("kubernetes.io/empty-dir/uid-web-a",)
    result = volmgr(client, "drain", "--timeout", "1s")
    assert result.exit_code == 1
    assert "  kubernetes.io/empty-dir/uid-web-a: its Pod is held\n" in result.stderr


def test_adopt_and_accept_manifests_say_what_was_done(client: Client) -> None:
    assert volmgr(client, "adopt").output == "adopted 3 Pods\n"
    assert volmgr(client, "doctor", "--accept-manifests").output == "/manifests is accepted as it is\n"
    assert volmgr(client, "doctor", "--accept-cluster").output == "2 Pods go now\n"


def test_events_are_printed_one_a_line(client: Client, engine: FakeEngine) -> None:
    engine.events.record(Severity.WARNING, "FailedMount", "no space left", pod="default/web", volume="x/y")
    line = "2027-01-15T08:00:00.000Z Warning FailedMount default/web x/y: no space left\n"
    assert volmgr(client, "events").output == line
    assert json.loads(volmgr(client, "events", "-o", "json").output)["reason"] == "FailedMount"


def test_followed_events_are_flushed_each_to_a_pipe(client: Client, engine: FakeEngine) -> None:
    argv = [sys.executable, "-m", "volmgr.cli", "--socket", client.path, "events", "-f"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for number in range(3):
            engine.events.record(Severity.NORMAL, "Tick", str(number))
            assert process.stdout.readline().endswith(f"Tick: {number}\n")
        engine.events.close()
        assert process.wait(30) == 0


def test_events_are_followed_over_a_daemon_that_comes_back(engine: FakeEngine, path: Path) -> None:
    client = Client(str(path))
    lines = client.follow()
    with serving(engine, path) as served:
        engine.events.record(Severity.NORMAL, "Before", "text")
        assert json.loads(next(lines))["reason"] == "Before"
        served.drop_clients()
    again = FakeEngine()
    with serving(again, path):
        again.events.record(Severity.NORMAL, "After", "text")
        while json.loads(next(lines))["reason"] != "After":
            pass
    assert list(lines) == []
    client.close()


def test_plan_exits_with_2_when_there_is_work(client: Client, engine: FakeEngine) -> None:
    assert volmgr(client, "plan").output == "nothing to do\n"
    pod = make_pod("web", "a", "b")
    add_pod(engine.world, pod)
    run(engine.world, pod, "b")
    result = volmgr(client, "plan")
    assert result.exit_code == 2
    assert result.output.splitlines() == [
        "1. mount kubernetes.io/empty-dir/uid-web-a for Pod default/web: the Pod wants it",
        "2. mount kubernetes.io/empty-dir/uid-web-b for Pod default/web: the Pod wants it [it runs]",
    ]


def test_plugins_shows_types_and_the_traceback_of_broken_ones(client: Client, engine: FakeEngine) -> None:
    engine.world.plugins.broken.append(Broken(Origin("volmgr-nfs", "1", "nfs = x:Y"), "ImportError", "line 1\nline 2"))
    output = volmgr(client, "plugins").output
    assert "kubernetes.io/empty-dir  volmgr-emptydir 0.1.0  emptyDir" in output
    assert "broken: volmgr-nfs 1 (nfs = x:Y): ImportError\n    line 1\n    line 2\n" in output


def test_plugins_shows_the_drivers_that_have_registered(client: Client, engine: FakeEngine) -> None:
    name = "disk.example.com"
    engine.world.drivers[name] = DriverInfo(name=name, node_id="i-1", topology={"zone": "a"}, limit=8, since=1.0)
    engine.world.reading = ServerReading(server="https://s", driver_problems={name: "its zone is wrong"})
    output = volmgr(client, "plugins").output
    assert "DRIVER            NODE ID  TOPOLOGY  LIMIT" in output
    assert "disk.example.com  i-1      zone=a    8      -        1970-01-01T00:00:01.000Z  -         -\n" in output
    assert "the cluster is not told of disk.example.com: its zone is wrong\n" in output
    (shown,) = json.loads(volmgr(client, "plugins", "-o", "json").output)["drivers"]
    assert (shown["topology"], shown["limit"]) == ({"zone": "a"}, 8)


def test_plugins_shows_where_drivers_are_looked_for_and_what_is_not_there(client: Client, engine: FakeEngine) -> None:
    searched = engine.world.plugins.searched
    searched["csi"] = Searched(field="csi", places=("/root/plugins_registry",))
    hint = "no driver has registered; start one, and its registrar, or name its socket in the configuration\n"
    assert volmgr(client, "plugins").output.endswith(f"csi are looked for in /root/plugins_registry\n{hint}")
    searched["csi"] = Searched(
        field="csi",
        places=("/root/plugins_registry",),
        misfits={"disk.example.com": "it is refused", "/root/x.sock": "it registers nothing"},
        absent={"disk.example.com": "last seen then; it is refused", "gone.example.com": "last seen then; start it"},
        problem="nothing is watched",
    )
    searched["flexVolume"] = Searched(field="flexVolume", places=("/flex",), misfits={"v/d": "v~d is not executable"})
    engine.world.drivers["disk.example.com"] = DriverInfo(name="disk.example.com", node_id="i-1")
    assert volmgr(client, "plugins").output.partition("drivers of ")[2].splitlines() == [
        "csi are looked for in /root/plugins_registry",
        "  none is found: nothing is watched",
        "not there:",
        "  /root/x.sock: it registers nothing",
        "  gone.example.com: last seen then; start it",
        "there, and:",
        "  disk.example.com: last seen then; it is refused",
        "",
        "drivers of flexVolume are looked for in /flex",
        "not there:",
        "  v/d: v~d is not executable",
    ]
    shown = json.loads(volmgr(client, "plugins", "-o", "json").output)
    assert shown["searches"][0]["problem"] == "nothing is watched"
    assert {"field": "csi", "name": "gone.example.com", "reason": "last seen then; start it"} in shown["absent"]


def test_the_doctor_tells_notes_from_what_is_wrong(client: Client, engine: FakeEngine) -> None:
    misfits = {"disk.example.com": "it is refused", "/root/x.sock": "it registers nothing"}
    engine.world.plugins.searched["csi"] = Searched(field="csi", misfits=misfits)
    lines = volmgr(client, "doctor").output.splitlines()
    assert "WRONG driver disk.example.com: it is refused" in lines
    assert "note  driver /root/x.sock: it registers nothing" in lines


def test_a_refused_reload_exits_with_1(client: Client, engine: FakeEngine) -> None:
    engine.refuse_reload = True
    result = volmgr(client, "plugins", "reload")
    assert result.exit_code == 1
    assert "the old packages stay in use" in result.stderr


def test_a_reload_waits_for_the_daemon_that_comes_back(engine: FakeEngine, path: Path) -> None:
    results: list[Result] = []
    with serving(engine, path) as served:
        client = Client(str(path))
        thread = threading.Thread(target=lambda: results.append(volmgr(client, "plugins", "reload")))
        engine.reloaded = served.drop_clients_soon
        thread.start()
        thread.join()
    assert results[0].exit_code == 0
    assert results[0].output.startswith("reloading\nTYPE")


def test_orphans_are_listed_with_uid_path_and_reason(client: Client, engine: FakeEngine) -> None:
    assert volmgr(client, "orphans").output == "nothing is left over\n"
    engine.world.orphans["/x"] = Orphan(pod_uid="uid-gone", path="/x", reason="it has data in it")
    assert volmgr(client, "orphans").output == "uid-gone  /x  it has data in it\n"


def test_the_doctor_says_what_is_wrong_each_with_a_remedy(client: Client, engine: FakeEngine, tmp_path: Path) -> None:
    engine.world.sources["directory"] = "/manifests is missing"
    result = volmgr(client, "doctor", "-o", "json")
    report = json.loads(result.output)
    wrong = {item["check"]: item for item in report["findings"] if not item["ok"]}
    assert result.exit_code == 1
    assert "--accept-manifests" in wrong["source directory"]["remedy"]
    assert all(item["remedy"] for item in wrong.values())
    assert "-> make it readable" in volmgr(client, "doctor").output


def test_the_doctor_names_a_wrong_manifest_once(client: Client, engine: FakeEngine) -> None:
    error = ManifestError("is missing", file="/m/web.yaml", document=1, field="spec", remedy="write it")
    engine.world.complaints["/m/web.yaml"] = (error,)
    output = volmgr(client, "doctor").output
    assert "WRONG manifest /m/web.yaml: document 1: spec: is missing; write it\n" in output


def test_the_doctor_looks_at_the_node_without_a_daemon(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        cli, ["--socket", str(tmp_path / "none"), "doctor", "--root-dir", str(tmp_path / "root")]
    )
    assert result.exit_code == 1
    assert "WRONG daemon: no daemon answers" in result.output
    assert f"WRONG root directory: {tmp_path / 'root'} is no directory" in result.output
    assert "inotify max_user_watches" in result.output


def test_the_doctor_asks_the_types_that_are_installed_with_and_without_a_daemon(client: Client, tmp_path: Path) -> None:
    needs = """
        from volmgr.plugin import Handles, Requirement, VolumePlugin
        class Share(VolumePlugin[None]):
            name = "example.com/share"
            handles = (Handles("share"),)
            def requirements(self, host):
                there = host.files.info(host.paths.root) is not None
                return (Requirement(check="root", met=there, detail=str(host.paths.root), remedy="make it"),)
    """
    with site(tmp_path) as here:
        here.install("acme-share", needs, "Share")
        here.install("acme-bad", "raise ImportError('no libshare')", "Bad")
        alone = CliRunner().invoke(cli, ["--socket", str(tmp_path / "none"), "doctor", "--root-dir", str(tmp_path)])
        asked = volmgr(client, "doctor")
    assert f"ok    example.com/share root: {tmp_path}\n" in alone.output
    assert "WRONG package acme-bad: " in alone.output
    assert "WRONG example.com/share root: /var/lib/volmgr\n      -> make it\n" in asked.output
    assert "acme-bad" not in asked.output, "the daemon says which of its packages are broken"


@pytest.mark.parametrize("name", ["status", "plan", "plugins", "orphans"])
def test_json_is_what_the_api_answers(client: Client, name: str) -> None:
    target = {"status": "pods"}.get(name, name)
    assert json.loads(volmgr(client, name, "-o", "json").output) == json.loads(client.get(f"/v1/{target}"))


def test_claims_are_two_tables_and_say_that_nothing_is_deleted(client: Client, engine: FakeEngine) -> None:
    assert volmgr(client, "claims").output == "no claims, and no PersistentVolumes\n"
    owner = ClaimRef(namespace="default", name="c", uid="u1")
    pv = PersistentVolume(
        metadata=ObjectMeta(name="v"),
        type="hostPath",
        capacity={"storage": Quantity.parse("2Gi")},
        access_modes=("ReadWriteOnce", "ReadWriteOncePod"),
        claim_ref=owner,
        reclaim_policy="Delete",
        phase="Bound",
    )
    claim = PersistentVolumeClaim(
        metadata=ObjectMeta(name="c", uid="u1"),
        volume_name="v",
        requests={"storage": Quantity.parse("1Gi")},
        access_modes=("ReadWriteOnce",),
        storage_class_name="gold",
        phase="Bound",
    )
    waiting = PersistentVolumeClaim(metadata=ObjectMeta(name="d"), phase="Pending", message="no volume fits it")
    for item in (pv, claim, waiting):
        engine.world.objects[ref_of(item)] = ObjectEntry(item=item, revision="1", origin="a.yaml")
    lines = volmgr(client, "claims").output.splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["CLAIM", "PHASE", "VOLUME", "REQUESTED", "MODES", "MODE", "CLASS", "REASON"],
        ["default/c", "Bound", "v", "1Gi", "RWO", "Filesystem", "gold"],
        ["default/d", "Pending", "Filesystem", "no", "volume", "fits", "it"],
    ]
    assert [line.split() for line in lines[3:5]] == [
        ["VOLUME", "PHASE", "CLAIM", "RECLAIM", "CAPACITY", "MODES", "MODE", "CLASS", "TYPE", "REASON"],
        ["pv/v", "Bound", "default/c", "Delete", "2Gi", "RWO,RWOP", "Filesystem", "hostPath"],
    ]
    assert lines[5].endswith("a reclaim policy of Delete does as Retain does")
    found = json.loads(volmgr(client, "-o", "json", "claims").output)
    assert (found["claims"][0]["origin"], found["volumes"][0]["claim_uid"]) == ("a.yaml", "u1")


def test_release_takes_a_volume_by_name(client: Client, engine: FakeEngine) -> None:
    assert volmgr(client, "release", "pv/v").output == "PersistentVolume v is free\n"
    assert json.loads(volmgr(client, "release", "v", "-o", "json").output) == {"message": "PersistentVolume v is free"}
    assert engine.asked == ["release v", "release v"]
    unknown = volmgr(client, "release", "pv/unknown")
    assert (unknown.exit_code, "no PersistentVolume unknown is known" in unknown.output) == (1, True)
    assert volmgr(client, "release", "pv/a/b").exit_code == 2


def test_delete_with_data_takes_the_volume_of_a_claim_or_one_by_name(client: Client, engine: FakeEngine) -> None:
    assert volmgr(client, "delete", "pvc/shop/c", "--data").output == "the volume of shop/c is deleted\n"
    assert volmgr(client, "delete", "pvc/c", "--data", "--timeout", "2m").exit_code == 0
    found = json.loads(volmgr(client, "delete", "pv/v", "--data", "-o", "json").output)
    assert found == {"message": "the volume of v is deleted"}
    assert engine.asked == ["delete shop/c 60", "delete default/c 120", "delete v 60"]
    unknown = volmgr(client, "delete", "pvc/shop/unknown", "--data")
    assert unknown.exit_code == 1
    assert "no PersistentVolume of a claim shop/unknown is known; volmgr claims lists them" in unknown.output
    assert "default/web still has it" in volmgr(client, "delete", "pvc/shop/used", "--data").output


def test_data_is_deleted_only_where_that_is_said(client: Client, engine: FakeEngine) -> None:
    said = volmgr(client, "delete", "pvc/shop/c").output
    assert "no Pod pvc/shop/c is known; to delete a volume with what is on it: volmgr delete pvc/shop/c --data" in said
    assert volmgr(client, "delete", "web", "--data").exit_code == 2
    with pytest.raises(Refused, match=r"say so by \?data=true"):
        client.request("DELETE", "/v1/volumes/v")
    assert engine.asked == []


def test_orphans_names_volumes_that_nobody_knows_and_storage_that_cannot_be_asked(
    client: Client, engine: FakeEngine
) -> None:
    engine.strangers = (("disks.example.com", "pvc-1"),)
    engine.problems = ("what other.example.com has cannot be listed: it sleeps",)
    found = volmgr(client, "orphans")
    assert found.stdout.startswith(
        "pvc-1  disks.example.com has it, and it looks made for a claim; nothing here knows it"
    )
    assert found.stderr == "volmgr: what other.example.com has cannot be listed: it sleeps\n"
    assert json.loads(volmgr(client, "orphans", "-o", "json").stdout)["problems"] == list(engine.problems)
    engine.strangers = ()
    assert "nothing is left over" not in volmgr(client, "orphans").output
