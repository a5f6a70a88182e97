"""Facts about the kernel, from their text."""

from pathlib import Path

import pytest

from volmgr.host.kernel import container_label, memory_of, page_sizes_of, version_of


@pytest.mark.parametrize(
    ("release", "version"),
    [("6.18.44-fc-v669", (6, 18)), ("5.14.0-503.el9.x86_64", (5, 14)), ("6.4", (6, 4)), ("odd", (0, 0))],
)
def test_major_and_minor_of_a_release_are_read(release: str, version: tuple[int, int]) -> None:
    assert version_of(release) == version


def test_memory_is_the_total_in_bytes() -> None:
    assert memory_of("MemTotal:       24684084 kB\nMemFree:        1 kB\n") == 24684084 * 1024
    assert memory_of("") == 0


def test_page_sizes_are_in_bytes_with_the_smallest_first() -> None:
    assert page_sizes_of(["hugepages-1048576kB", "hugepages-2048kB", "other"]) == (2 << 20, 1 << 30)


FILE = "system_u:object_r:container_file_t:s0"
CONTEXTS = f"""# comment
process = "system_u:system_r:container_t:s0"
; file = "other"
file = "{FILE}"
"""


def put(root: Path, path: str, text: str = "") -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.fixture
def selinux(tmp_path: Path) -> Path:
    """A machine with SELinux and the policy `targeted`, whose context file a test writes."""
    put(tmp_path, "sys/fs/selinux/enforce", "0")
    put(tmp_path, "proc/self/attr/current", "system_u:system_r:initrc_t:s0\0")
    put(tmp_path, "etc/selinux/config", "# SELINUXTYPE=mls\nSELINUX=permissive\nSELINUXTYPE=targeted\n")
    return tmp_path


def test_files_of_containers_have_the_label_that_the_policy_names(selinux: Path) -> None:
    put(selinux, "etc/selinux/targeted/contexts/lxc_contexts", CONTEXTS)
    assert container_label(selinux) == FILE


def test_the_label_of_container_selinux_is_before_that_of_the_policy(selinux: Path) -> None:
    put(selinux, "etc/selinux/targeted/contexts/lxc_contexts", CONTEXTS)
    put(selinux, "usr/share/containers/selinux/contexts", 'file = "u:r:t:s0:c1"\n')
    assert container_label(selinux) == "u:r:t:s0:c1"


@pytest.mark.parametrize("content", ["", "process = x\n", 'file = ""\n', 'file = "only:two"\n', "file = a:b:c d\n"])
def test_a_policy_that_names_no_label_gives_none(selinux: Path, content: str) -> None:
    put(selinux, "etc/selinux/targeted/contexts/lxc_contexts", content)
    assert container_label(selinux) == ""


def test_a_policy_without_context_files_gives_no_label(selinux: Path) -> None:
    assert container_label(selinux) == ""


def test_a_machine_without_selinux_has_no_label_though_a_policy_is_installed(selinux: Path) -> None:
    put(selinux, "etc/selinux/targeted/contexts/lxc_contexts", CONTEXTS)
    (selinux / "sys/fs/selinux/enforce").unlink()
    assert container_label(selinux) == ""


def test_before_a_policy_is_loaded_there_is_no_label(selinux: Path) -> None:
    put(selinux, "etc/selinux/targeted/contexts/lxc_contexts", CONTEXTS)
    put(selinux, "proc/self/attr/current", "kernel\0")
    assert container_label(selinux) == ""
