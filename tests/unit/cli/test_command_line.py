"""The command line as such: help, lazy imports, usage errors, and what needs no daemon."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from volmgr.cli.app import COMMANDS, cli
from volmgr.cli.client import Client, Unreachable, quote

HEAVY = (
    "marshmallow",
    "kubernetes",
    "rich",
    "stevedore",
    "pluggy",
    "msgspec",
    "yaml",
    "json",
    "urllib",
    "http",
    "email",
)
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: c, volumeMounts: [{name: data, mountPath: /d}]}]
  volumes: [{name: data, emptyDir: {}}]
"""


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_whose_first_line_is_in_the_list(name: str) -> None:
    result = run(name, "--help")
    assert result.exit_code == 0
    assert COMMANDS[name] in result.output
    assert "--socket" in result.output
    assert "-o, --output" in result.output


def test_the_list_names_every_command() -> None:
    output = run("--help").output
    assert all(f"  {name} " in output for name in COMMANDS)
    assert cli.list_commands(click.Context(cli))[: len(COMMANDS)] == list(COMMANDS)


def test_help_imports_nothing_heavy() -> None:
    program = "import sys\nfrom volmgr.cli.app import cli\ncli(['--help'], standalone_mode=False)\nprint(*sys.modules)"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    loaded = set(output.splitlines()[-1].split())
    assert loaded.isdisjoint(HEAVY)
    assert {name for name in loaded if name.startswith("volmgr.")} == {
        "volmgr.cli",
        "volmgr.cli.app",
        "volmgr.cli.client",
        "volmgr.cli.failures",
        "volmgr.cli.packages",
        "volmgr.cli.session",
    }


def test_help_answers_within_150_ms_once_byte_compiled(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}
    argv = [sys.executable, "-m", "volmgr.cli", "--help"]
    subprocess.run(argv, env=environment, check=True, capture_output=True)
    assert min(cpu_seconds(argv, environment) for _ in range(5)) < 0.150


def cpu_seconds(argv: list[str], environment: dict[str, str]) -> float:
    """Measure CPU time, which other work on the machine does not lengthen."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_an_unknown_command_is_a_usage_error() -> None:
    result = run("mount")
    assert result.exit_code == 2
    assert "No such command 'mount'" in result.output


@pytest.mark.parametrize(
    "words",
    [
        ("why",),
        ("wait", "web", "--for", "eaten"),
        ("wait", "web", "--timeout", "soon"),
        ("hold", "web"),
        ("hold", "--pid", "3", "web", "--", "sleep", "1"),
        ("apply",),
        ("plan", "--manifests", "/m"),
        ("-o", "xml", "status"),
        ("check",),
    ],
)
def test_wrong_usage_exits_with_2(words: tuple[str, ...]) -> None:
    assert run(*words).exit_code == 2


@pytest.mark.parametrize(
    "words", [("status",), ("why", "web"), ("wait", "web"), ("events", "-f"), ("plugins", "reload")]
)
def test_without_a_daemon_commands_exit_with_3_and_say_how_to_start_one(words: tuple[str, ...], tmp_path: Path) -> None:
    socket = tmp_path / "none.sock"
    result = run("--socket", str(socket), *words)
    assert result.exit_code == 3
    assert result.stdout == ""
    assert str(socket) in result.stderr
    assert "systemctl start volmgrd" in result.stderr


def test_the_socket_may_come_from_the_environment(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["status"], env={"VOLMGR_SOCKET": str(tmp_path / "env.sock")})
    assert "env.sock" in result.stderr


def test_a_client_that_reaches_nobody_says_so(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="no daemon answers"):
        Client(str(tmp_path / "s")).get("/")


@pytest.mark.root
def test_a_socket_that_may_not_be_used_is_not_a_daemon_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir(mode=0o700)
    client = Client(str(tmp_path / "private" / "s"))
    os.seteuid(65534)  # nobody: root may use every socket
    try:
        with pytest.raises(Unreachable, match="run volmgr as root"):
            client.get("/")
    finally:
        os.seteuid(0)


def test_a_selector_is_one_part_of_a_path() -> None:
    assert quote("default/wéb 1") == "default%2Fw%C3%A9b%201"


def test_check_accepts_good_files_and_directories_without_a_daemon(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(POD)
    (tmp_path / ".hidden.yaml").write_text("nonsense: [")
    (tmp_path / "backup.yaml~").write_text("nonsense: [")
    result = run("check", str(tmp_path))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"{tmp_path / 'good.yaml'}: ok: Pod default/web")


def test_a_file_that_is_missing_is_an_error_of_that_file_alone(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(POD)
    result = run("check", str(tmp_path / "none.yaml"), str(tmp_path / "good.yaml"))
    assert result.exit_code == 1
    assert f"{tmp_path / 'none.yaml'}: cannot be read: No such file or directory" in result.stderr
    assert "good.yaml: ok" in result.stdout
    result = run("apply", "-f", str(tmp_path / "none.yaml"))
    assert (result.exit_code, "No such file or directory" in result.stderr) == (1, True)


def test_plan_of_a_root_that_is_not_there_yet_counts_it_as_empty(tmp_path: Path) -> None:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "good.yaml").write_text(POD)
    result = run("plan", "--root-dir", str(tmp_path / "none"), "--manifests", str(tmp_path / "manifests"))
    assert (result.exit_code, result.stderr) == (2, "")
    assert not (tmp_path / "none").exists()
    result = run("plan", "--root-dir", str(tmp_path / "manifests" / "good.yaml"))
    assert result.exit_code == 1
    assert result.stderr.endswith("is no directory; name the root directory of a volmgrd\n")


def test_check_names_file_document_field_and_remedy_and_goes_on(tmp_path: Path) -> None:
    bad, good = tmp_path / "bad.yaml", tmp_path / "good.yaml"
    bad.write_text(f"{POD}---\n{POD.replace('emptyDir: {}', 'emptyDir: {medum: Memory}')}")
    good.write_text(POD)
    result = run("check", str(bad), str(good))
    assert result.exit_code == 1
    assert f"{bad}: document 2: spec.volumes[0]" in result.stderr
    assert "medum" in result.stderr
    assert f"{good}: ok" in result.stdout


def test_check_speaks_json(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("kind: Pod\n")
    result = run("check", "-o", "json", str(path))
    assert result.exit_code == 1
    (file,) = json.loads(result.stdout)["files"]
    assert set(file) == {"file", "objects", "errors", "notes"}
    assert set(file["errors"][0]) == {"document", "field", "problem", "remedy"}


def test_check_refuses_a_file_above_ten_megabytes_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    result = run("check", str(path))
    assert result.exit_code == 1
    assert "huge.yaml" in result.stderr


def test_check_notes_a_volume_that_no_installed_package_serves(tmp_path: Path) -> None:
    path = tmp_path / "glusterfs.yaml"
    path.write_text(POD.replace("emptyDir: {}", "glusterfs: {endpoints: e, path: /p}"))
    result = run("check", str(path))
    assert result.exit_code == 0
    assert "no package serves volume type 'glusterfs'" in result.stdout


def test_check_finds_a_pod_that_is_twice_in_a_file() -> None:
    other = POD.replace("name: web", "name: db, uid: u")
    text = "---\n".join((POD, POD, other, other.replace("db", "mail")))
    result = CliRunner().invoke(cli, ["check", "-"], input=text)
    assert result.exit_code == 1
    assert "-: document 2: the Pod default/web is also in document 1 of this file; remove it" in result.stderr
    assert "-: document 4: metadata.uid: the Pod in document 3 of this file has this UID, too" in result.stderr


def test_a_misspelt_command_is_told_which_it_resembles() -> None:
    assert "Did you mean 'status'?" in run("stauts").stderr
    assert "No such command 'get'." in run("get", "pods").stderr


def test_check_notes_a_volume_that_no_container_uses(tmp_path: Path) -> None:
    path = tmp_path / "typo.yaml"
    path.write_text(POD.replace("volumeMounts", "volumeMount"))
    result = run("check", str(path))
    assert result.exit_code == 0
    assert "no container names it in its volumeMounts" in result.stdout


def test_check_says_what_to_write_instead_of_a_deployment() -> None:
    text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"
    result = CliRunner().invoke(cli, ["check", "-"], input=text)
    assert "write its spec.template as a Pod" in result.stdout


def test_check_reads_standard_input() -> None:
    result = CliRunner().invoke(cli, ["check", "-"], input=POD)
    assert result.stdout.startswith("-: ok: Pod default/web")
