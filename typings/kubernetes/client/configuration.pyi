from typing import TypedDict

class _AuthSetting(TypedDict):
    value: str | None

class Configuration:
    api_key: dict[str, str]
    host: str
    verify_ssl: bool
    ssl_ca_cert: str | None
    cert_file: str | None
    key_file: str | None
    tls_server_name: str | None
    connection_pool_maxsize: int
    proxy: str | None
    no_proxy: str | None
    retries: bool | int | None
    keep_alive: bool
    def __init__(self, host: str | None = None, *, proxy: str | None = None) -> None: ...
    def auth_settings(self) -> dict[str, _AuthSetting]: ...
