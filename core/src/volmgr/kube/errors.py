"""What an API server answers instead of what was asked for, and its silence."""

from __future__ import annotations

from volmgr.errors import OperationError


class ApiError(OperationError):
    """A request failed; `status` is HTTP's, 0 when there was no answer; `retry_after` is seconds, 0 when not said."""

    def __init__(self, message: str, *, status: int = 0, reason: str = "", retry_after: float = 0.0) -> None:
        """Take the server's message, and its Status' `reason` (`NotFound`, `Expired`, …)."""
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after

    @property
    def is_unreachable(self) -> bool:
        """Nobody answered."""
        return self.status == 0

    @property
    def is_missing(self) -> bool:
        """There is no such object: the server's own word; what lies before it also answers 404, and knows nothing."""
        return self.status == 404 and self.reason == "NotFound"  # noqa: PLR2004 - HTTP's

    @property
    def is_refused(self) -> bool:
        """We may not (unauthorized or forbidden)."""
        return self.status in {401, 403}

    @property
    def is_denied(self) -> bool:
        """The server said no, whatever for: nothing was done, and will be."""
        return 400 <= self.status < 500  # noqa: PLR2004 - HTTP's

    @property
    def is_passing(self) -> bool:
        """The same request may well succeed later: nobody answered, or the server had trouble or too much to do."""
        return self.is_unreachable or self.status >= 500 or self.status == 429  # noqa: PLR2004 - HTTP's

    @property
    def is_conflict(self) -> bool:
        """It exists already, or was changed meanwhile."""
        return self.status == 409  # noqa: PLR2004 - HTTP's

    @property
    def is_gone(self) -> bool:
        """The resourceVersion is too old: list again."""
        return self.status == 410 or self.reason == "Expired"  # noqa: PLR2004 - HTTP's
