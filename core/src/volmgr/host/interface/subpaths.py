"""Parts of a volume for one container."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Subpaths(Protocol):
    """Handing a part of a volume to a container, whatever other containers do in the volume meanwhile."""

    def bind(self, volume: Path, sub_path: str, target: Path, *, create: bool = True) -> bool:
        """Bind what `sub_path` names in a volume's directory on `target`; False when it was bound there already.

        Links that stay in the volume are followed, absolute ones too. What is missing is made, with the mode of the
        volume's directory, unless `create` is False. Something else that is mounted on `target` is taken away.
        Raises SpecError for a path that is empty, absolute or has `..`, OperationError for what leads out of the
        volume or is missing, UncertainError when the volume's server does not answer.
        """
        ...
