"""The rules by which objects become files: items, modes, optional, groups and nested mount points."""

import pytest

from volmgr.errors import SpecError
from volmgr.model.payload import KeyToPath, PayloadFile, files_of, given_to, mode_of, nested, widened

DATA = {"a": b"1", "b": b"2"}


def test_without_items_every_key_is_a_file_of_mode_0644() -> None:
    files = files_of(DATA, ())
    assert files == {"a": PayloadFile(data=b"1", mode=0o644), "b": PayloadFile(data=b"2", mode=0o644)}


def test_items_choose_keys_and_an_item_s_mode_wins_over_the_volume_s() -> None:
    items = (KeyToPath(key="a", path="x/y", mode=0o400), KeyToPath(key="a", path="z"))
    files = files_of(DATA, items, default_mode=0o600)
    assert files == {"x/y": PayloadFile(data=b"1", mode=0o400), "z": PayloadFile(data=b"1", mode=0o600)}


def test_a_missing_key_is_named_in_kubelet_s_words_and_left_out_where_it_is_optional() -> None:
    items = (KeyToPath(key="a", path="a"), KeyToPath(key="k", path="k"))
    with pytest.raises(
        SpecError,
        match=r"^references non-existent secret key: k; add it there, correct items, or write optional: true$",
    ):
        files_of(DATA, items)
    assert set(files_of(DATA, items, optional=True)) == {"a"}


@pytest.mark.parametrize("mode", [0, 0o400, 0o777])
def test_a_file_mode_is_taken_as_it_is(mode: int) -> None:
    assert mode_of(mode) == mode
    assert mode_of(None, mode) == mode
    assert mode_of(0o644, mode) == 0o644


@pytest.mark.parametrize("mode", [-1, 0o1000, 644])
def test_what_is_no_file_mode_is_refused_by_its_field(mode: int) -> None:
    with pytest.raises(SpecError, match=f"defaultMode: {mode} is no file mode"):
        files_of(DATA, (), default_mode=mode)
    if mode != 644:
        with pytest.raises(SpecError, match=rf"items\[a\].mode: {mode} is no file mode"):
            files_of(DATA, (KeyToPath(key="a", path="a", mode=mode),))


def test_a_group_gets_the_files_and_may_read_them_and_nothing_else_changes() -> None:
    payload = {"tight": PayloadFile(data=b"", mode=0o400, uid=7), "wide": PayloadFile(data=b"", mode=0o755)}
    assert given_to(payload, None) == payload
    assert given_to(payload, 1000) == {
        "tight": PayloadFile(data=b"", mode=0o440, uid=7, gid=1000),
        "wide": PayloadFile(data=b"", mode=0o755, gid=1000),
    }
    assert widened(payload) == ["tight"]


def test_a_file_is_never_shown_with_its_content() -> None:
    assert "hunter2" not in repr(files_of({"password": b"hunter2"}, ()))


@pytest.mark.parametrize(
    ("mounts", "directories"),
    [
        ([("v", "/etc/v", ""), ("w", "/etc/v/sub", "")], {"sub"}),
        ([("v", "/etc/v", ""), ("w", "/etc/v/sub", ""), ("x", "/etc/v/sub/below", "")], {"sub"}),
        ([("v", "/etc/v/", ""), ("w", "/etc//v/./a/b", ""), ("x", "/etc/v/c", "")], {"a/b", "c"}),
        ([("v", "/etc/v", ""), ("w", "/etc/vault", ""), ("x", "/etc", "")], set[str]()),
        ([("v", "/x/../etc/v", ""), ("w", "/etc/v/a/../b", ""), ("x", "/etc/v/../c", "")], {"b"}),
        ([("v", "/etc/v", "part"), ("w", "/etc/v/sub", "")], set[str]()),
        ([("v", "/a", ""), ("v", "/b", ""), ("w", "/a/x", ""), ("w", "/b/y", "")], {"x", "y"}),
        ([("v", "/a", ""), ("v", "/a/again", "")], {"again"}),
        ([("w", "/etc/w", "")], set[str]()),
    ],
)
def test_what_is_mounted_inside_a_volume_needs_a_directory_there(
    mounts: list[tuple[str, str, str]], directories: set[str]
) -> None:
    assert nested(mounts, "v") == directories
