from collections.abc import Mapping

from kubernetes.client.configuration import Configuration

class InClusterConfigLoader:
    def __init__(self, token_filename: str, cert_filename: str, *, environ: Mapping[str, str]) -> None: ...
    def load_and_set(self, client_configuration: Configuration) -> None: ...
