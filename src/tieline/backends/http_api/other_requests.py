"""Requests to an upstream that are not legs: forwarded requests, and requests for the model list or token counts."""

import asyncio
import re

import msgspec

from tieline.backends.http_api.redirects import REDIRECTS, follow
from tieline.backends.http_api.upstream import ERROR_LIMIT, REPLY_LIMIT, Upstream
from tieline.backends.http_api.upstream_errors import error_response, final, pipe_failed
from tieline.model.errors import GatewayError, LegFailed
from tieline.model.events import Headers, Usage
from tieline.model.ports import ModelInfo
from tieline.net.client.http import HttpResponse, PipeError
from tieline.wire.shared.json import Malformed

USAGE_BYTES = 1024
"""Number of bytes at the end of an answer that are searched for the usage."""
_USAGE = re.compile(rb'"usage"\s*:\s*(\{[^{}]*\})')


class _ReportedUsage(msgspec.Struct):
    """The usage at the end of an answer, under the names that different endpoints use."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


async def fetch(upstream: Upstream, method: str, path: str, headers: Headers, body: bytes = b"") -> bytes:
    """Send a request and return the body of the response. Raise GatewayError if the request fails."""
    try:
        response = await upstream.client.send(upstream.origin, method, path, headers, body, upstream.timeouts)
        if response.status in REDIRECTS:
            response = await follow(upstream, response, method, path, headers, body)
        try:
            answer = await response.read(REPLY_LIMIT)
        finally:
            response.close()
    except PipeError as error:
        raise LegFailed(pipe_failed(upstream.name, error)) from error
    if not 200 <= response.status < 300:
        raise LegFailed(error_response(upstream, response, answer))
    return answer


async def list_models(upstream: Upstream, path: str) -> list[ModelInfo]:
    """Return the models of an upstream. Raise GatewayError if they cannot be listed."""
    body = await fetch(upstream, "GET", path, upstream.codec.headers)
    try:
        return upstream.codec.read_models(body)
    except Malformed as error:
        message = f"Upstream `{upstream.name}` did not return a list of models: {error}"
        raise GatewayError("upstream", message) from error


class UpstreamAnswer:
    """An answer that is passed on unchanged. Only its usage is parsed."""

    __slots__ = ("_end", "_name", "_response", "content_type", "headers")

    def __init__(self, upstream: Upstream, response: HttpResponse) -> None:
        self._name = upstream.name
        self._response = response
        self._end = b""
        self.content_type = response.field(b"content-type").decode("latin-1")
        self.headers = response.pick(upstream.forwarded)

    async def chunk(self) -> bytes:
        """Return the next bytes of the body, or b"" at its end. Raise GatewayError if the connection fails."""
        try:
            data = self._response.take() or await self._response.chunk()
        except PipeError as error:
            raise LegFailed(pipe_failed(self._name, error)) from error
        if data:
            self._end = data[-USAGE_BYTES:] if len(data) >= USAGE_BYTES else (self._end + data)[-USAGE_BYTES:]
        return data

    @property
    def usage(self) -> Usage | None:
        """The usage at the end of a JSON body; None if the body reports none, or until its end has been read."""
        found = _USAGE.findall(self._end)
        try:
            reported = msgspec.json.decode(found[-1], type=_ReportedUsage) if found else None
        except msgspec.DecodeError:
            return None
        if reported is None:
            return None
        return Usage(
            input=max(0, reported.prompt_tokens or reported.input_tokens),
            output=max(0, reported.completion_tokens or reported.output_tokens),
        )

    def close(self) -> None:
        """Close the answer and discard any part of the body that has not been read."""
        self._response.close()


async def forward(upstream: Upstream, path: str, headers: Headers, body: bytes) -> UpstreamAnswer:
    """Post a body unchanged and return the answer. Raise GatewayError if all attempts fail."""
    attempts = 0
    while True:
        attempts += 1
        try:
            response = await upstream.client.send(upstream.origin, "POST", path, headers, body, upstream.timeouts)
            if response.status in REDIRECTS:
                response = await follow(upstream, response, "POST", path, headers, body)
            if 200 <= response.status < 300:
                return UpstreamAnswer(upstream, response)
            try:
                failed = error_response(upstream, response, await response.read(ERROR_LIMIT))
            finally:
                response.close()
        except PipeError as error:
            failed = pipe_failed(upstream.name, error)
        delay = upstream.retry_policy.delay(failed, attempts)
        if delay is None:
            raise LegFailed(final(failed))
        await asyncio.sleep(delay)
