"""The page in a frame of an editor: tokens that open it once, and who may frame it."""

import html
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.web.serving import KEY, PageStand, serving
from tieline.web.embed import LIFETIME, MAX_TOKENS

EDITOR = "vscode-webview://0a1b2c"
ANCESTORS = [EDITOR, "vscode-file://vscode-app"]
NAVIGATION = {
    "sec-fetch-site": "cross-site",
    "sec-fetch-mode": "navigate",
    "sec-fetch-dest": "iframe",
    "accept": "text/html",
    "x-api-key": "",
}
"""The headers of a browser that loads a frame. It has no key."""


@pytest.fixture
async def locked(tmp_path: Path) -> AsyncIterator[PageStand]:
    async with serving(tmp_path, env={"TIELINE_KEY": KEY}, headers={"x-api-key": KEY}) as stand:
        yield stand


async def issued(stand: PageStand, **body: Any) -> str:
    response = await stand.http.post("/api/embed", json={"ancestors": ANCESTORS, **body})
    assert response.status_code == 200, response.text
    assert response.json()["expires_in"] == LIFETIME
    return str(response.json()["path"])


async def framed(stand: PageStand, path: str) -> httpx2.Response:
    return await stand.http.get(path, headers=NAVIGATION)


def attributes(response: httpx2.Response) -> dict[str, str]:
    """The data attributes of the page's root element."""
    tag = response.text[response.text.index("<html") : response.text.index(">", response.text.index("<html"))]
    return {name: html.unescape(value) for name, value in re.findall(r'data-(\w+)="([^"]*)"', tag)}


async def test_a_token_opens_the_page_once_for_the_named_windows(locked: PageStand, tmp_path: Path) -> None:
    name = (await locked.http.post("/api/workspaces", json={"path": str(tmp_path)})).json()["name"]
    path = await issued(locked, workspace=name)
    page = await framed(locked, path)
    assert page.status_code == 200
    assert page.headers["cache-control"] == "no-store"
    policy = page.headers["content-security-policy"]
    assert f"frame-ancestors {' '.join(ANCESTORS)}" in policy
    assert "script-src 'self'" in policy
    assert "set-cookie" not in page.headers
    given = attributes(page)
    assert (given["embed"], given["workspace"]) == (EDITOR, name)
    opened = await locked.http.get("/api/state", headers={"x-api-key": "", "x-tieline-pass": given["pass"]})
    assert opened.json()["needs_key"] is False
    again = await framed(locked, path)
    assert (again.status_code, "open it again" in again.text) == (403, True)
    assert "frame-ancestors" not in again.headers["content-security-policy"], "or the frame would not show the text"
    assert "data-pass" not in again.text


async def test_a_page_without_a_key_gets_no_pass(tmp_path: Path) -> None:
    async with serving(tmp_path) as stand:
        page = await framed(stand, await issued(stand))
        assert attributes(page) == {"embed": EDITOR, "workspace": ""}


async def test_a_token_expires(locked: PageStand, monkeypatch: pytest.MonkeyPatch) -> None:
    early, late = await issued(locked), await issued(locked)
    assert locked.app.page is not None
    embed = locked.app.page.embed
    now = embed._clock()
    monkeypatch.setattr(embed, "_clock", lambda: now + LIFETIME - 1)
    assert (await framed(locked, early)).status_code == 200
    monkeypatch.setattr(embed, "_clock", lambda: now + LIFETIME + 1)
    assert (await framed(locked, late)).status_code == 403


async def test_the_number_of_waiting_tokens_is_limited(locked: PageStand) -> None:
    first = await issued(locked)
    others = [await issued(locked) for _ in range(MAX_TOKENS)]
    assert (await framed(locked, first)).status_code == 403
    assert (await framed(locked, others[0])).status_code == 200


@pytest.mark.parametrize("path", ["/embed/guess", "/embed/", "/embed/a/b", "/embed/%00", "/embed/%C3%BC"])
async def test_a_guess_opens_nothing(locked: PageStand, path: str) -> None:
    await issued(locked)
    assert (await framed(locked, path)).status_code in (401, 403, 404)


@pytest.mark.parametrize(
    "ancestor",
    [
        "*",
        "https://*.example.com",
        "https://*",
        "'self'",
        "'none'",
        "data:",
        "https:",
        "https://a.example/path",
        "https://a.example/",
        "https://a.example; script-src *",
        "https://a.example script-src",
        "https://a.example\r\nset-cookie: a=b",
        "https://a.example\n",
        'https://a.example" onload="x',
        "https://a.example>",
        "https://user@a.example",
        "https://a.example:port",
        "https://a.example:999999",
        "https://ä.example",
        "//a.example",
        "",
        "https://" + "a" * 200,
    ],
)
async def test_a_forged_ancestor_is_refused(locked: PageStand, ancestor: str) -> None:
    response = await locked.http.post("/api/embed", json={"ancestors": [EDITOR, ancestor]})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "ancestors[1]")


@pytest.mark.parametrize("body", [{}, {"ancestors": []}, {"ancestors": [EDITOR] * 9}, {"ancestors": EDITOR}])
async def test_the_number_of_ancestors_is_limited(locked: PageStand, body: Any) -> None:
    assert (await locked.http.post("/api/embed", json=body)).status_code == 400


@pytest.mark.parametrize("ancestor", ["http://127.0.0.1:8080", "http://[::1]:80", "https://a_b.vscode-cdn.net", EDITOR])
async def test_usual_origins_are_accepted(locked: PageStand, ancestor: str) -> None:
    page = await framed(locked, await issued(locked, ancestors=[ancestor]))
    assert page.headers["content-security-policy"].endswith(f"frame-ancestors {ancestor}")


async def test_an_unknown_workspace_and_a_missing_key_are_refused(locked: PageStand) -> None:
    unknown = await locked.http.post("/api/embed", json={"ancestors": ANCESTORS, "workspace": '"><script>'})
    assert unknown.status_code == 404
    keyless = await locked.http.post("/api/embed", json={"ancestors": ANCESTORS}, headers={"x-api-key": ""})
    assert keyless.status_code == 401


async def test_only_this_path_may_be_loaded_by_another_site_and_only_as_a_document(locked: PageStand) -> None:
    path = await issued(locked)
    for other in ("/", "/traffic", "/api/state", "/static/app.js"):
        assert (await framed(locked, other)).status_code == 403
    script = {**NAVIGATION, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"}
    assert (await locked.http.get(path, headers=script)).status_code == 403
    foreign = {**NAVIGATION, "origin": "https://evil.example"}
    assert (await locked.http.get(path, headers=foreign)).status_code == 403
    rebound = {**NAVIGATION, "host": "evil.example"}
    assert (await locked.http.get(path, headers=rebound)).status_code == 403
    assert (await framed(locked, path)).status_code == 200, "a refused request does not use the token up"


async def test_every_other_page_refuses_to_be_framed(locked: PageStand) -> None:
    for path in ("/", "/connect", "/traffic"):
        page = await locked.http.get(path, headers={"accept": "text/html"})
        assert page.headers["content-security-policy"].endswith("frame-ancestors 'none'")
