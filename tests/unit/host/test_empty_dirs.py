"""The directories that emptyDir and other types stand on, where the types' own tests do not look."""

import pytest

from volmgr.errors import OperationError
from volmgr.host.empty_dirs import mounted_page_size


@pytest.mark.parametrize("option", ["pagesize=2M", "pagesize=2Mi", "pagesize=2048K"])
def test_the_page_size_of_a_mount_is_read_as_the_kernel_means_it(option: str) -> None:
    assert mounted_page_size(("rw", option)) == 2 << 20


@pytest.mark.parametrize("options", [(), ("rw", "relatime"), ("pagesize=",), ("pagesize=two",)])
def test_a_mount_that_says_no_page_size_is_an_error(options: tuple[str, ...]) -> None:
    with pytest.raises(OperationError, match="is not determined"):
        mounted_page_size(options)
