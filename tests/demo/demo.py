"""`make demo`: the product at work. Every line after a `$` is really executed, and every claim is checked."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.demo.stage import Failed, Stage

SHOP = """\
apiVersion: v1
kind: Pod
metadata: {name: shop, uid: shop-1}
spec:
  containers:
  - name: web
    volumeMounts:
    - {name: scratch, mountPath: /scratch}
    - {name: cache, mountPath: /cache}
    - {name: site, mountPath: /site}
  volumes:
  - name: scratch
    emptyDir: {}
  - name: cache
    emptyDir: {medium: Memory, sizeLimit: 16Mi}
  - name: site
    hostPath: {path: TOP/site, type: DirectoryOrCreate}
"""

MAIL = """\
apiVersion: v1
kind: Pod
metadata: {name: mail, uid: mail-1}
spec:
  containers: [{name: smtp, volumeMounts: [{name: queue, mountPath: /queue}]}]
  volumes: [{name: queue, emptyDir: {meduim: Memory}}]
"""

ARCHIVE = """\
apiVersion: v1
kind: Pod
metadata: {name: archive, uid: archive-1}
spec:
  containers: [{name: tar, volumeMounts: [{name: tapes, mountPath: /tapes}]}]
  volumes: [{name: tapes, rbd: {monitors: [ceph.example.com], image: tapes}}]
"""

MOUNTS = "grep /node/pods/ /proc/self/mountinfo | cut -d' ' -f1,5,8-"
"""Mount id, path, file system: what the kernel says of our volumes."""
SHOP_VOLUMES = "node/pods/shop-1/volumes/kubernetes.io~empty-dir"
MAIL_VOLUMES = "node/pods/mail-1/volumes/kubernetes.io~empty-dir"


def volumes_are_mounted(stage: Stage) -> None:
    """Show the main job."""
    stage.scene("A directory of Kubernetes manifests becomes mounted volumes")
    stage.say(
        "There is no kubelet here and no cluster. This is a Pod in a file; it wants a directory on disk, one in \
memory with a limit, and one of the host:"
    )
    stage.file("manifests/shop.yaml", SHOP.replace("TOP", str(stage.top)))
    stage.start_daemon()
    stage.run("volmgr wait shop")
    stage.run("volmgr status shop", has=["shop-1", "mounted", f"{SHOP_VOLUMES}/scratch", str(stage.top / "site")])
    stage.say(
        "What the kernel says (mount id, path, file system): the volume in memory is a tmpfs with our limit. \
The paths are those of kubelet; a container runtime binds them into the containers."
    )
    stage.run(MOUNTS, has=[f"{SHOP_VOLUMES}/cache tmpfs", "size=16384k"])
    stage.run(f"echo 'order 1' > {SHOP_VOLUMES}/scratch/orders; echo page > {SHOP_VOLUMES}/cache/page; ls site")


def mistakes_are_named(stage: Stage) -> None:
    """Show a broken manifest, and a volume type that nobody serves any more."""
    stage.scene("A mistake stops nobody else, and says what to do")
    followed = stage.follow()
    stage.file("manifests/mail.yaml", MAIL)
    stage.await_event(followed, "InvalidManifest")
    stage.file("manifests/archive.yaml", ARCHIVE)
    stage.await_event(followed, "FailedMount")
    stage.stop(followed)
    stage.say(
        "The first file has a typing error; the second Pod needs a volume type that Kubernetes has given up. Both say \
so when they are asked, too:"
    )
    stage.run("volmgr why mail", code=1, has=["emptyDir.meduim", "did you mean medium?"])
    stage.run("volmgr why archive", has=["csi volume with driver rbd.csi.ceph.com instead"])
    stage.run("volmgr plugins", has=["volmgr-emptydir", "volmgr-hostpath"])
    stage.say(
        "The same is found before a file is put there, without a daemon (`volmgr check` ends with 1). We correct \
the word, and only that Pod moves:"
    )
    stage.run("volmgr check manifests/mail.yaml", code=1, has=["did you mean medium?"])
    stage.run("sed -i s/meduim/medium/ manifests/mail.yaml")
    stage.run("volmgr wait mail")
    stage.run(MOUNTS, has=[f"{SHOP_VOLUMES}/cache", f"{MAIL_VOLUMES}/queue"])


def a_pod_is_changed(stage: Stage) -> None:
    """Show that a living Pod's volumes are fixed, and how a new one takes its place."""
    stage.scene("A Pod is changed")
    stage.say(
        "The volumes of a living Pod never change under it. Another limit under the same UID is refused, and the \
Pod keeps what it has:"
    )
    followed = stage.follow()
    stage.run("sed -i s/Memory/Memory,sizeLimit:\\ 8Mi/ manifests/mail.yaml")
    stage.await_event(followed, "InvalidManifest")
    stage.run("volmgr why mail", has=["its last good version is used", "volumes"])
    stage.say("With another UID it is another Pod: the old one's volumes go, the new one's come.")
    stage.run("sed -i s/mail-1/mail-2/ manifests/mail.yaml")
    stage.run("volmgr wait mail-2")
    stage.run("volmgr wait mail-1 --for unmounted")
    stage.run(MOUNTS, has=["pods/mail-2/", "size=8192k"], lacks=["pods/mail-1/"])
    stage.stop(followed)


def a_crash_changes_nothing(stage: Stage) -> None:
    """Show kill -9 and a restart."""
    stage.scene("The daemon is killed; the volumes do not notice")
    before = stage.run(MOUNTS)
    stage.kill_daemon()
    stage.run("volmgr status", code=3)
    stage.run(MOUNTS, has=before.splitlines())
    stage.run(f"cat {SHOP_VOLUMES}/scratch/orders {SHOP_VOLUMES}/cache/page", has=["order 1", "page"])
    stage.say(
        "Started again, it takes over what it finds. The mount ids in the first column are the same, so nothing \
was mounted anew:"
    )
    stage.start_daemon()
    stage.run("volmgr wait shop")
    after = stage.run(MOUNTS)
    stage.check(before == after, "the mount table is the same as before the crash")


def damage_is_repaired(stage: Stage) -> None:
    """Show that a volume which somebody unmounts is noticed and made again."""
    stage.scene("Somebody unmounts a volume")
    followed = stage.follow()
    stage.run(f"umount {SHOP_VOLUMES}/cache")
    stage.say(
        "Nothing polls: the kernel tells the daemon that the mount table changed. `volmgr events --follow`, \
which runs meanwhile, prints:"
    )
    stage.await_event(followed, "VolumeVanished")
    stage.await_event(followed, "SuccessfulMountVolume")
    stage.stop(followed)
    stage.run(MOUNTS, has=[f"{SHOP_VOLUMES}/cache tmpfs"])


def a_busy_volume_is_left_alone(stage: Stage) -> None:
    """Show deletion while a process still uses a volume."""
    stage.scene("The Pod goes while a process still uses its volume")
    user = stage.spawn(f"cd {SHOP_VOLUMES}/cache && exec sleep 300")
    followed = stage.follow()
    stage.run("rm manifests/*.yaml")
    stage.await_event(followed, "FailedUnmount")
    stage.stop(followed)
    stage.run("volmgr why shop", has=["it is in use", f"{user.pid} (sleep)"])
    stage.say("A volume in use is never torn away; it is named, with the process, and tried again.")
    stage.stop(user)


def nothing_is_left(stage: Stage) -> None:
    """Show the clean end."""
    stage.scene("Nothing is left")
    for pod in ("shop", "mail", "archive"):
        stage.run(f"volmgr wait {pod} --for unmounted")
    stage.run(MOUNTS, code=0, lacks=["node/pods"])
    stage.run("find node/pods", lacks=["node/pods/"])
    stage.run("volmgr status", has=["no Pods"])
    stage.run("volmgr orphans", has=["nothing is left over"])
    stage.say("What hostPath made on the host belongs to the host, and stays:")
    stage.run("ls -d site", has=["site"])
    stage.end_daemon()


SCENES = (
    volumes_are_mounted,
    mistakes_are_named,
    a_pod_is_changed,
    a_crash_changes_nothing,
    damage_is_repaired,
    a_busy_volume_is_left_alone,
    nothing_is_left,
)


def _stop(_number: int, _frame: object) -> None:
    sys.exit(1)  # so that the stage is cleared


def main() -> int:
    """Play all scenes; gives the exit code."""
    if os.geteuid() != 0:
        print("demo: it mounts volumes: run it as root, or in a rootful container or VM", file=sys.stderr)
        return 1
    if "--inside" not in sys.argv:  # in a mount namespace of its own: the machine's mount table is left as it is
        python = [sys.executable, str(Path(__file__).resolve()), "--inside"]
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", *python])
    signal.signal(signal.SIGTERM, _stop)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="volmgr-demo-") as top, Stage(Path(top)) as stage:
        try:
            for scene in SCENES:
                scene(stage)
        except Failed as error:
            print(f"\ndemo: FAILED: {error}\n\nthe daemon's log:\n{stage.log}", file=sys.stderr)
            return 1
    print(f"\nThat was volmgr, in {time.monotonic() - began:.0f} s. Each step was checked, and nothing of it is left.")
    print("Read on: README.md, then docs/operations.md or docs/plugins/tutorial.md.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
