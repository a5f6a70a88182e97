"""What the kernel's log says of servers, record by record, and read from where it is written."""

from __future__ import annotations

import pytest

from volmgr.host.kernel_log import Heard, heard_in


@pytest.mark.parametrize(
    ("text", "heard"),
    [
        ("nfs: server 10.0.0.1 not responding, still trying", Heard("10.0.0.1", silent=True)),
        ("nfs: server 10.0.0.1 not responding, timed out", Heard("10.0.0.1", silent=True)),
        ("nfs: server 10.0.0.1 OK", Heard("10.0.0.1", silent=False)),
        ("nfs: server fe80::1 OK", Heard("fe80::1", silent=False)),
        ("nfs: server files.example.com not responding, still trying", Heard("files.example.com", silent=True)),
        ("lockd: server 10.0.0.1 not responding, still trying", None),
        ("nfs: server 10.0.0.1 OKAY", None),
        ("nfs: server", None),
        ("eth0: link is up; nfs: server 10.0.0.1 OK", None),
        ("", None),
    ],
)
def test_a_record_speaks_of_a_server_or_of_something_else(text: str, heard: Heard | None) -> None:
    assert heard_in(f"5,1234,98765432,-;{text}\n SUBSYSTEM=net\n".encode()) == heard


@pytest.mark.parametrize("head", ["13,1,2,-", "x,1,2,-", "", "5,1,2,-nfs"])
def test_only_the_kernel_is_believed(head: str) -> None:
    separator = "" if head.endswith("nfs") else ";"
    assert heard_in(f"{head}{separator}nfs: server 10.0.0.1 OK\n".encode()) is None


def test_what_is_no_text_is_of_no_server() -> None:
    assert heard_in(b"5,1,2,-;\xff\xfe nfs: server 10.0.0.1 OK") is None
