from collections.abc import Mapping

from kubernetes.client.configuration import Configuration

class KubeConfigLoader:
    def __init__(
        self, config_dict: Mapping[str, object], *, config_base_path: str, temp_file_path: str | None = None
    ) -> None: ...
    def load_and_set(self, client_configuration: Configuration) -> None: ...
