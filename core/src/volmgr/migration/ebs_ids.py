"""The ids of EBS volumes, which Kubernetes has written as URLs, too: `aws://ZONE/vol-…`. Pure.

Such a URL is read as Go's net/url reads it, since that decides which volume is meant; but a zone in brackets, an
address in IPv6, is refused.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from volmgr.errors import SpecError

_URL = "aws://"
_ESCAPE = "%[0-9A-Fa-f]{2}"
_USER = rf"(?:[-A-Za-z0-9._:~!$&'()*+,;=@]|{_ESCAPE})*"
_HOST = r"[-A-Za-z0-9._~!$&'()*+,;=<>\"\]]|[^\x00-\x7f]|%25|%[89A-Fa-f][0-9A-Fa-f]"
_AUTHORITY = re.compile(rf"(?:{_USER}@)?(?:(?:{_HOST})*|(?:{_HOST}|:)*:[0-9]*)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BARE_PERCENT = re.compile(rf"%(?!{_ESCAPE[1:]})")
_ID = re.compile(r"vol-[^/]*")


def volume_id(text: str) -> str:
    """Give the id by which the driver knows a volume; raises SpecError."""
    if not text.startswith(_URL):
        return text
    url, _, fragment = text.partition("#")
    authority, slash, path = url.removeprefix(_URL).partition("?")[0].partition("/")
    if _CONTROL.search(url) or _BARE_PERCENT.search(path + slash + fragment) or not _AUTHORITY.fullmatch(authority):
        raise _wrong(text)
    try:
        found = unquote_to_bytes(path).decode().strip("/")
    except UnicodeDecodeError:
        raise _wrong(text) from None
    if not _ID.fullmatch(found):
        raise _wrong(text)
    return found


def _wrong(text: str) -> SpecError:
    return SpecError(f"volumeID: {text!r} names no EBS volume; write vol-… or aws://ZONE/vol-…")
