"""What a browser is told with every response of the gateway."""

import http.client
from urllib.parse import urlsplit

import pytest

from tests.e2e.support import KEY, Stand


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/inbox", 200),
        ("POST", "/api/inbox/nothing", 400),
        ("GET", "/api/rules", 404),
        ("GET", "/api/state", 200),
        ("GET", "/v1/models", 200),
        ("GET", "/healthz", 200),
        ("GET", "/", 200),
        ("GET", "/nowhere", 404),
        ("POST", "/v1/messages", 400),
    ],
)
def test_no_browser_guesses_a_type_or_gives_a_response_to_another_site(
    gateway: Stand, method: str, path: str, status: int
) -> None:
    connection = http.client.HTTPConnection(urlsplit(gateway.url).netloc, timeout=60)
    connection.request(method, path, "{}" if method == "POST" else None, {"x-api-key": KEY})
    response = connection.getresponse()
    response.read()
    connection.close()
    assert response.status == status
    assert response.headers.get_all("x-content-type-options") == ["nosniff"]
    assert response.headers.get_all("cross-origin-resource-policy") == ["same-origin"]
