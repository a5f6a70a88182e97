"""`make demo-container`: the containers of a Pod, run by runc on volumes that volmgr mounts. Every claim is checked."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.demo.stage import Failed, Stage

REPOSITORY = Path(__file__).resolve().parents[2]
APPLETS = ("sh", "cat", "echo", "id", "ls", "sleep", "touch")

SETTINGS = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {greeting: good morning}
"""

SHOP = """\
apiVersion: v1
kind: Secret
metadata: {name: door}
stringData: {key: a-secret-word}
---
apiVersion: v1
kind: Pod
metadata: {name: shop, uid: shop-1, labels: {tier: front}}
spec:
  securityContext: {runAsUser: 1000, fsGroup: 2000}
  initContainers:
  - name: first
    volumeMounts:
    - {name: work, mountPath: /out, subPath: data}
  containers:
  - name: web
    env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
    volumeMounts:
    - {name: work, mountPath: /data, subPath: data, readOnly: true}
    - {name: logs, mountPath: /logs, subPathExpr: $(POD)/web}
    - {name: all, mountPath: /etc/all}
    - {name: settings, mountPath: /etc/at-start, subPath: greeting}
    - {name: site, mountPath: /site, readOnly: true}
  volumes:
  - {name: work, emptyDir: {}}
  - {name: logs, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  - name: site
    hostPath: {path: TOP/site, type: Directory}
  - name: settings
    configMap: {name: settings}
  - name: all
    projected:
      sources:
      - configMap: {name: settings}
      - secret: {name: door}
      - downwardAPI: {items: [{path: tier, fieldRef: {fieldPath: metadata.labels}}]}
"""

WEB = """\
umask 077
id
cat /etc/all/tier; echo
cat /data/made
cat /site/page
test "$(cat /etc/all/key)" = a-secret-word && echo the secret is right
touch /data/x 2>/dev/null || echo /data can only be read
echo begun > /logs/log
last=
while sleep 0.02; do
  now=$(cat /etc/all/greeting)
  test "$now" = "$last" || echo "greeting: $now (at the start: $(cat /etc/at-start))"
  last=$now
done
"""

RUNC = "runc --root run --rootless=true"
"""Containers are kept below the demo's directory; a machine that lets nobody use its cgroups is no obstacle."""


def a_root_file_system_is_built(stage: Stage) -> None:
    """Show what the containers see but for their volumes."""
    stage.scene("A root file system of one program")
    stage.run("mkdir -p first/rootfs/bin run site; echo a page of the host > site/page")
    stage.run("cp $(command -v busybox) first/rootfs/bin/busybox")
    stage.run(f"for each in {' '.join(APPLETS)} test; do ln -s busybox first/rootfs/bin/$each; done")
    stage.run("cp -a first web")
    (stage.top / "web.sh").write_text(WEB)


def volumes_are_asked_for(stage: Stage) -> None:
    """Show a Pod, and what its containers are to be given."""
    stage.scene("A Pod, and what its containers are to be given")
    stage.file("manifests/settings.yaml", SETTINGS)
    stage.file("manifests/shop.yaml", SHOP.replace("TOP", str(stage.top)))
    stage.start_daemon()
    stage.run("volmgr wait shop")
    stage.say(
        "`volmgr mounts` binds the subPaths, and says what goes where. A runtime gets it as a part of its config:"
    )
    stage.run("volmgr mounts shop", has=["volume-subpaths/work/first/0", "volume-subpaths/logs/web/1", "work/data"])


def containers_run(stage: Stage) -> None:
    """Run the init container, then the main one in the background."""
    stage.scene("Its containers run, each held by volmgr for as long as it lives")
    bundle = 'volmgr mounts shop --container {0} --format oci | oci_bundle.py --user 1000 {0} -- sh -c "{1}"'
    stage.run(bundle.format("first", "echo made by the init container > /out/made"))
    stage.run(f"volmgr hold shop -- {RUNC} run --bundle first first")
    stage.run(bundle.format("web", "$(cat web.sh)"))
    web = stage.spawn(f"exec volmgr hold shop -- {RUNC} run --bundle web web")
    for text in (
        "uid=1000 gid=1000 groups=2000",
        'tier="front"',
        "made by the init container",
        "a page of the host",
        "the secret is right",
        "/data can only be read",
        "greeting: good morning (at the start: good morning)",
    ):
        stage.await_line(web, text)
    a_config_map_changes(stage, web)
    the_pod_leaves(stage, web)


def a_config_map_changes(stage: Stage, web: subprocess.Popen[str]) -> None:
    """Show that a changed ConfigMap reaches the running container."""
    stage.scene("The ConfigMap changes")
    stage.file("manifests/settings.yaml", SETTINGS.replace("morning", "evening"))
    stage.await_line(web, "greeting: good evening (at the start: good morning)")
    stage.say(
        "The volume shows the new text at once. A subPath shows what was there when the container was started, as it "
        "does everywhere, but here one can ask:"
    )
    stage.run("volmgr why shop", has=["subPath web/3", "shows an older version of volume settings"])


def the_pod_leaves(stage: Stage, web: subprocess.Popen[str]) -> None:
    """Show that volumes stay while the container runs, and go with it."""
    stage.scene("The Pod leaves while its container runs")
    stage.run("rm manifests/*.yaml")
    followed = stage.follow()
    stage.run(f"{RUNC} exec web cat /logs/log", has=["begun"])
    stage.run("until volmgr why shop | grep 'its volumes stay while it is held'; do sleep 0.1; done")
    stage.run(f"{RUNC} kill web KILL")
    stage.await_event(followed, "PodGone")
    stage.stop(followed)
    stage.run("volmgr wait shop --for unmounted")
    stage.run("find node/pods; grep /node/pods/ /proc/self/mountinfo", code=1, lacks=["shop-1"])
    stage.end_daemon()
    stage.run(f"{RUNC} list -q", lacks=["web", "first"])


SCENES = (a_root_file_system_is_built, volumes_are_asked_for, containers_run)


def _stop(_number: int, _frame: object) -> None:
    sys.exit(1)  # so that the stage is cleared


def _missing() -> str:
    """Say what the demo needs and has not."""
    if os.geteuid() != 0:
        return "it mounts volumes: run it as root, or in a rootful container or VM"
    absent = [tool for tool in ("runc", "busybox") if shutil.which(tool) is None]
    return f"it runs containers: install {' and '.join(absent)} (Debian: runc, busybox-static)" if absent else ""


def _end_containers(top: Path) -> None:
    """End what a failed demo left running: containers outlive the process that started them."""
    for state in (top / "run").glob("*/state.json"):
        argv = ["runc", "--root", str(top / "run"), "--rootless=true", "delete", "--force", state.parent.name]
        subprocess.run(argv, check=False)


def main() -> int:
    """Play all scenes; gives the exit code."""
    missing = _missing()
    if missing:
        print(f"demo: {missing}", file=sys.stderr)
        return 1
    if "--inside" not in sys.argv:  # in a mount namespace of its own: the machine's mount table is left as it is
        python = [sys.executable, str(Path(__file__).resolve()), "--inside"]
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", *python])
    signal.signal(signal.SIGTERM, _stop)
    os.environ["PATH"] = f"{REPOSITORY / 'contrib'}:{os.environ.get('PATH', os.defpath)}"
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="volmgr-demo-") as top, Stage(Path(top)) as stage:
        try:
            for scene in SCENES:
                scene(stage)
        except Failed as error:
            print(f"\ndemo: FAILED: {error}\n\nthe daemon's log:\n{stage.log}", file=sys.stderr)
            return 1
        finally:
            _end_containers(Path(top))
    print(f"\nThat was a Pod without a cluster, in {time.monotonic() - began:.0f} s. Nothing of it is left.")
    print("Read on: docs/runtimes.md.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
