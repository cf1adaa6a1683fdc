import asyncio
from pathlib import Path

import httpx2
import pytest
from msgspec.structs import replace

from tieline.app.config import Config, ServerSettings
from tieline.app.gateway_models import in_workspace_of
from tieline.app.local_gateway import LocalGateway, find_running, local_gateway
from tieline.app.serve import listen
from tieline.model.errors import GatewayError

CONFIG = Config(server=ServerSettings(port=0))
CHAT = {"model": "demo/scripted", "messages": [{"role": "user", "content": "hi"}]}


def at(url: str) -> Config:
    return replace(CONFIG, server=replace(CONFIG.server, port=int(url.rpartition(":")[2])))


async def post(url: str, key: str | None) -> int:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with httpx2.AsyncClient(trust_env=False) as http:
        return (await http.post(f"{url}/v1/chat/completions", json=CHAT, headers=headers)).status_code


async def test_a_gateway_is_started_with_a_key_and_stopped_again(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    async with local_gateway(CONFIG, env) as gateway:
        assert gateway.is_started
        assert await post(gateway.url, gateway.key) == 200
        assert await post(gateway.url, None) == 401
        assert not gateway.url.endswith(":0")
    try:
        await post(gateway.url, gateway.key)
    except httpx2.ConnectError:
        return
    raise AssertionError("the gateway still answers")


async def test_a_running_gateway_is_used(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "TIELINE_KEY": "the-key"}
    async with local_gateway(CONFIG, env) as first:
        async with local_gateway(at(first.url), env) as second:
            assert second == (first.url, "the-key", False)
        assert await post(first.url, "the-key") == 200
        async with local_gateway(at(first.url), env, always_start=True) as third:
            assert third.is_started
            assert third.url != first.url


async def test_a_gateway_with_another_key_is_not_used(tmp_path: Path) -> None:
    async with local_gateway(CONFIG, {"HOME": str(tmp_path), "TIELINE_KEY": "the-key"}) as first:
        for key in ({}, {"TIELINE_KEY": "another"}):
            assert await find_running(at(first.url), {"HOME": str(tmp_path), **key}) is None


async def test_another_service_at_the_address_is_not_used(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b'HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n{"status":"ok"}')
        writer.close()

    listener = listen("127.0.0.1", 0, "")
    server = await asyncio.start_server(answer, sock=listener)
    config = at(f"http://127.0.0.1:{listener.getsockname()[1]}")
    async with server, local_gateway(config, {"HOME": str(tmp_path)}) as gateway:
        assert gateway.is_started
        assert await post(gateway.url, gateway.key) == 200


async def test_nothing_is_found_at_a_closed_port(tmp_path: Path) -> None:
    listener = listen("127.0.0.1", 0, "")
    config = at(f"http://127.0.0.1:{listener.getsockname()[1]}")
    listener.close()
    assert await find_running(config, {"HOME": str(tmp_path)}) is None


async def test_a_client_uses_the_innermost_workspace_around_its_folder(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "TIELINE_KEY": "the-key"}
    outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner"
    below = inner / "src"
    below.mkdir(parents=True)
    async with local_gateway(CONFIG, env) as gateway, httpx2.AsyncClient(trust_env=False) as http:
        headers = {"authorization": "Bearer the-key"}
        names = {}
        for folder in (outer, inner):
            response = await http.post(f"{gateway.url}/api/workspaces", json={"path": str(folder)}, headers=headers)
            names[folder] = response.json()["name"]
        found = await in_workspace_of(gateway, below)
        assert found == gateway._replace(url=f"{gateway.url}/workspaces/{names[inner]}")
        assert await post(found.url, gateway.key) == 200
        assert (await in_workspace_of(gateway, outer)).url.endswith(names[outer])
        assert (await in_workspace_of(gateway, outer / "inner-not")).url.endswith(names[outer])
        assert await in_workspace_of(gateway, tmp_path) == gateway
        with pytest.raises(GatewayError) as refused:
            await in_workspace_of(gateway._replace(key="wrong"), below)
        assert (refused.value.kind, refused.value.status) == ("unauthorized", 401)


async def test_only_a_gateway_without_workspaces_is_used_as_it_is(tmp_path: Path) -> None:
    statuses = ["404 Not Found", "500 Internal Server Error", "502 Bad Gateway"]
    bodies = [b'{"error":{"message":"No such path."}}', b'{"error":{"message":"A bug."}}', b"<h1>Bad gateway</h1>"]
    answers = list(zip(statuses, bodies, strict=True))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        status, body = answers.pop(0)
        writer.write(f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        writer.close()

    listener = listen("127.0.0.1", 0, "")
    gateway = LocalGateway(f"http://127.0.0.1:{listener.getsockname()[1]}", None, is_started=False)
    async with await asyncio.start_server(answer, sock=listener):
        assert await in_workspace_of(gateway, tmp_path) == gateway
        for said in ("A bug.", f"The gateway at {gateway.url} answered 502."):
            with pytest.raises(GatewayError) as failed:
                await in_workspace_of(gateway, tmp_path)
            assert (failed.value.kind, failed.value.message) == ("upstream", said)
    with pytest.raises(GatewayError, match="Cannot read /api/workspaces"):
        await in_workspace_of(gateway, tmp_path)
