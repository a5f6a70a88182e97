"""What is executed so that a FUSE server outlives the daemon's service."""

from volmgr.host.scopes import in_scope, without_scope

COMMAND = ("/usr/bin/ceph-fuse", "--id", "a", "--", "-k")


def test_a_command_in_a_scope_is_run_as_it_is_and_named_where_systemd_lists_it() -> None:
    scoped = in_scope(COMMAND)
    assert scoped[:2] == ("systemd-run", "--scope")
    assert scoped[-len(COMMAND) :] == COMMAND
    assert "--description=volmgr: ceph-fuse" in scoped


def test_a_helper_is_named_without_its_scope() -> None:
    assert tuple(without_scope(in_scope(COMMAND))) == COMMAND
    assert without_scope(COMMAND) == COMMAND
