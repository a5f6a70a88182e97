"""configMap on a host in memory: kubelet's paths, modes, markers and messages."""

from pathlib import Path

import pytest

from volmgr.plugin import ConfigMap, KeyToPath, NotOurs, ObjectMeta, ObjectRef, Reference, SpecError, TransientError
from volmgr.testing import FakeHost, Volume, pod
from volmgr_configmap.plugin import ConfigMapSource, ConfigMapVolume

ROOT = Path("/var/lib/volmgr")
TARGET = ROOT / "pods/uid-web/volumes/kubernetes.io~configmap/data"
MARKER = ROOT / "pods/uid-web/plugins/kubernetes.io~empty-dir/wrapped_data/ready"
REF = ObjectRef("ConfigMap", "default", "settings")


def config(binary: dict[str, bytes] | None = None, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name="settings"), data=data, binary_data=binary or {})


def volume(found: ConfigMap | None = None, **fields: object) -> Volume:
    source = ConfigMapSource(name="settings", **fields)  # type: ignore[arg-type]
    return Volume(ConfigMapVolume(), source, objects={} if found is None else {REF: found})


def shown(host: FakeHost) -> dict[str, str]:
    """Give the files by their visible names."""
    stamp = host.files.read_link(TARGET / "..data")
    assert stamp is not None
    top = TARGET / stamp
    return {str(path.relative_to(top)): what for path, what in host.tree(top).items() if what.startswith("file")}


def test_text_and_bytes_are_files_on_disk_and_the_marker_is_an_empty_dir_s() -> None:
    host = FakeHost()
    volume(config({"raw": b"\x00\xff"}, text="ä")).mount(host)
    assert shown(host) == {"text": "file 644 0:0 b'\\xc3\\xa4'", "raw": "file 644 0:0 b'\\x00\\xff'"}
    assert host.table == {}
    assert host.tree(MARKER.parent) == {MARKER.parent: "directory 750 0:0", MARKER: "file 640 0:0 b''"}


def test_a_key_that_is_text_and_bytes_is_refused() -> None:
    with pytest.raises(SpecError, match="key k is in data and in binaryData; keep one"):
        volume(config({"k": b""}, k="")).mount(FakeHost())


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "..x"])
def test_a_path_out_of_the_volume_is_refused_and_the_volume_taken_back(path: str) -> None:
    host = FakeHost()
    with pytest.raises(SpecError, match="invalid path"):
        volume(config(k=""), items=(KeyToPath(key="k", path=path),)).mount(host)
    assert host.files.info(TARGET) is None
    assert host.files.info(MARKER.parent) is None


def test_a_missing_key_is_named_in_kubelet_s_words() -> None:
    with pytest.raises(
        SpecError, match=r"^configmap references non-existent config key: k; add it there, correct items, or write"
    ):
        volume(config(), items=(KeyToPath(key="k", path="k"),)).mount(FakeHost())


def test_a_missing_config_map_is_waited_for_unless_it_is_optional() -> None:
    host = FakeHost()
    with pytest.raises(TransientError, match="ConfigMap default/settings, which is missing"):
        volume().mount(host)
    volume(optional=True).mount(host)
    assert shown(host) == {}
    assert volume().plugin.references(volume().spec, pod()) == (Reference(REF),)


def test_a_source_without_a_name_says_what_to_write() -> None:
    of = Volume(ConfigMapVolume(), ConfigMapSource())
    with pytest.raises(SpecError, match=r"configMap\.name is missing; name the ConfigMap"):
        of.plugin.check(of.spec, of.pod)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (ConfigMapSource(name="a", default_mode=999), "defaultMode: 999 is no file mode"),
        (ConfigMapSource(name="a", items=(KeyToPath(key="k", path="p", mode=-1),)), r"items\[k\].mode: -1 is no"),
        (ConfigMapSource(name="a", items=(KeyToPath(key="k", path="../p"),)), r"it must not have \.\. in it"),
        (ConfigMapSource(name="a", items=(KeyToPath(key="k", path=""),)), "it is empty"),
        (
            ConfigMapSource(name="a", items=(KeyToPath(key="k", path="p"), KeyToPath(key="l", path="p/q"))),
            "'p' is a file, and 'p/q' lies below it",
        ),
    ],
)
def test_what_no_object_can_mend_is_refused_without_one(source: ConfigMapSource, problem: str) -> None:
    of = Volume(ConfigMapVolume(), source)
    with pytest.raises(SpecError, match=problem):
        of.plugin.check(of.spec, of.pod)


def test_the_volume_is_known_by_both_names_but_is_the_pod_s_own() -> None:
    of = volume()
    assert of.plugin.volume_name(of.spec) == "data/settings"
    assert of.unique_name == "kubernetes.io/configmap/uid-web-data"


def test_what_a_container_wrote_over_its_files_is_repaired_and_what_it_wrote_beside_them_stays() -> None:
    host = FakeHost()
    of = volume(config(key="right"))
    of.mount(host)
    host.put(TARGET / "key", b"meddled")
    host.put(TARGET / "mine", b"mine")
    of.mount(host)
    assert host.content(TARGET / "key") == b"right"
    assert host.content(TARGET / "mine") == b"mine"


def test_half_a_volume_is_known_for_ours_and_a_user_s_files_are_not() -> None:
    host = FakeHost()
    of = volume(config(key="right"))
    of.mount(host)
    host.machine.unlink(MARKER)  # as a teardown that was cut off leaves it
    assert of.reconstruct(host).spec.source == ConfigMapSource()
    host.put(TARGET / "precious")
    with pytest.raises(NotOurs, match="holds 'precious' and has no ready marker"):
        of.reconstruct(host)
