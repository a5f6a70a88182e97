from __future__ import annotations

import pytest

from volmgr.errors import OperationError, SpecError, UncertainError, VolmgrError, taken_back


def test_what_succeeds_is_not_undone() -> None:
    undone: list[str] = []
    with taken_back(lambda: undone.append("it"), "mounting /srv"):
        pass
    assert undone == []


@pytest.mark.parametrize("cls", [OperationError, SpecError])
def test_what_fails_is_undone_and_its_error_is_raised(cls: type[VolmgrError]) -> None:
    undone: list[str] = []
    with pytest.raises(cls, match=r"^no$"), taken_back(lambda: undone.append("it"), "mounting /srv"):
        raise cls("no")
    assert undone == ["it"]


def test_what_fails_and_cannot_be_undone_is_uncertain_and_says_both() -> None:
    def undo() -> None:
        raise OperationError("busy")

    expected = r"^mounting /srv failed \(the disk is full\), and so did undoing it: busy$"
    with pytest.raises(UncertainError, match=expected), taken_back(undo, "mounting /srv"):
        raise OperationError("the disk is full")


def test_what_is_uncertain_is_left_alone() -> None:
    undone: list[str] = []
    with pytest.raises(UncertainError), taken_back(lambda: undone.append("it"), "mounting /srv"):
        raise UncertainError("a helper hangs")
    assert undone == []
