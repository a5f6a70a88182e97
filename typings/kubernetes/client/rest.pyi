from collections.abc import Mapping

from kubernetes.client.configuration import Configuration
from urllib3 import BaseHTTPResponse, PoolManager

class RESTResponse:
    response: BaseHTTPResponse

class RESTClientObject:
    pool_manager: PoolManager
    def __init__(self, configuration: Configuration) -> None: ...
    def close(self) -> None: ...
    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        body: object = None,
        *,
        _request_timeout: tuple[float, float] | None = None,
    ) -> RESTResponse: ...

def should_bypass_proxies(url: str, no_proxy: str) -> bool: ...
