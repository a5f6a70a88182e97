from kubernetes.client.configuration import Configuration

class ConfigException(Exception): ...

def load_kube_config(
    config_file: str,
    *,
    client_configuration: Configuration,
    persist_config: bool = True,
    temp_file_path: str | None = None,
) -> None: ...
