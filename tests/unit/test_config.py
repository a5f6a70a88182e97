"""The configuration file."""

from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volmgr.config import Config, load_config
from volmgr.errors import ManifestError
from volmgr.model.duration import parse_duration, read_duration


def load(path: Path, text: str) -> Config:
    file = path / "volmgr.yaml"
    file.write_text(text)
    return load_config(file)


def test_the_defaults_are_kubelets() -> None:
    config = Config()
    assert (config.backoff_initial, config.backoff_max, config.pod_error_limit) == (0.5, 122.0, 10)
    assert (config.removal_settle, config.rescan_interval) == (1.0, 30.0)


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    assert load(tmp_path, "# nothing\n") == Config()


def test_options_are_read(tmp_path: Path) -> None:
    config = load(tmp_path, "backoff_initial: 250ms\nbackoff_max: 1m30s\nworkers: 3\nnode_name: n\nremoval_settle: 0\n")
    assert (config.backoff_initial, config.backoff_max, config.workers) == (0.25, 90.0, 3)
    assert (config.node_name, config.removal_settle) == ("n", 0.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("worker: 3", "worker: unknown field; did you mean workers?"),
        ("workers: '3'", "workers: the text '3' where a whole number is needed"),
        ("workers: 0", "workers is 0; write 1 or more"),
        ("backoff_max: 1ms", "backoff_initial is 0 or longer than backoff_max"),
        ("backoff_max: soon", "backoff_max: 'soon' is no duration"),
        ("backoff_max: true", "backoff_max: not a duration"),
        ("keep_terminated_pod_volumes: 'yes'", "keep_terminated_pod_volumes: the text 'yes' where a boolean is needed"),
        ("workers: 1\nworkers: 2", "line 2: the key 'workers' is there twice"),
        ("rescan_interval: 0", "rescan_interval is 0"),
        ("- a", "a list where a mapping is needed"),
        ("a: [", "line"),
        ("a: 1\n---\nb: 2", "has more than one document"),
        ("#" * (1 << 20) + "\n", "is longer than 1048576 bytes"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load(tmp_path, text)
    assert f"volmgr.yaml: {message}" in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"none\.yaml: cannot be read: No such file"):
        load_config(tmp_path / "none.yaml")


def test_every_option_is_written_as_its_field() -> None:
    assert [option.metadata["name"] for option in fields(Config)] == [option.name for option in fields(Config)]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30), ("30s", 30), ("2m", 120), ("500ms", 0.5), ("1h2m3s", 3723), ("1.5s", 1.5), ("0", 0)],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "-1", "1 s", "s", "1d", "1e3", "٣", "1m 3s", "inf"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration; write seconds such as 30 or 30s, or 2m"):
        parse_duration(text)


@given(st.integers(0, 10**6))
def test_numbers_are_seconds(number: int) -> None:
    assert read_duration(number) == read_duration(str(number)) == read_duration(f"{number}s") == number
