"""Forwards MCP between standard streams and HTTP, for agents that support only MCP servers that they start themselves.

Each line of standard input is sent as one POST. The response, as JSON or as server-sent events, is written to standard
output line by line. Requests run in parallel. The program exits at the end of its standard input. Agents run this file
as a script, outside its package, so it uses only the standard library.
"""

import http.client
import json
import os
import sys
import threading
from typing import Any
from urllib.parse import urlsplit

WAIT = 24 * 3600
"""Seconds to wait for data from the gateway. A client's tool may take a long time."""

HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


class McpForwarder:
    """Sends MCP messages to one URL and writes the responses to `out`."""

    def __init__(self, url: str, out: Any) -> None:
        self._where = urlsplit(url)
        self._out = out
        self._lock = threading.Lock()
        self._version = ""

    def forward(self, line: bytes) -> None:
        """Forward a message and write the responses to it. If forwarding fails, write an error response."""
        try:
            self._post(line)
        except (OSError, http.client.HTTPException) as error:
            self._fail(line, f"the gateway cannot be reached: {error}")

    def _post(self, line: bytes) -> None:
        connection = http.client.HTTPConnection(self._where.hostname or "", self._where.port, timeout=WAIT)
        headers = dict(HEADERS)
        if self._version:
            headers["mcp-protocol-version"] = self._version
        try:
            connection.request("POST", self._where.path, line, headers)
            response = connection.getresponse()
            kind = response.getheader("content-type", "")
            if response.status >= 400:
                self._fail(line, f"the gateway answered {response.status}")
            elif kind.startswith("text/event-stream"):
                self._stream(response)
            elif body := response.read().strip():
                self._write(body)
        finally:
            connection.close()

    def _stream(self, response: http.client.HTTPResponse) -> None:
        data: list[bytes] = []
        for raw in response:
            line = raw.rstrip(b"\r\n")
            if line.startswith(b"data:"):
                data.append(line[5:].strip())
            elif not line and data:
                self._write(b"".join(data))
                data.clear()

    def _write(self, message: bytes) -> None:
        if not message:
            return
        self._note_version(message)
        with self._lock:
            self._out.write(message.replace(b"\n", b" ") + b"\n")
            self._out.flush()

    def _note_version(self, message: bytes) -> None:
        """Remember the negotiated protocol version, which later requests send in a header."""
        if self._version or b"protocolVersion" not in message:
            return
        try:
            version = json.loads(message)["result"]["protocolVersion"]
        except (ValueError, KeyError, TypeError):
            return
        self._version = str(version)

    def _fail(self, line: bytes, why: str) -> None:
        try:
            number = json.loads(line)["id"]
        except (ValueError, KeyError, TypeError):
            return
        error = {"jsonrpc": "2.0", "id": number, "error": {"code": -32603, "message": why}}
        self._write(json.dumps(error).encode())


def main() -> None:
    """Forward messages until the end of standard input."""
    forwarder = McpForwarder(os.environ["TIELINE_MCP_URL"], sys.stdout.buffer)
    for line in sys.stdin.buffer:
        if line.strip():
            # Wait for the response, because later messages need the protocol version that this one negotiates.
            if b'"initialize"' in line:
                forwarder.forward(line)
            else:
                threading.Thread(target=forwarder.forward, args=(line,), daemon=True).start()


if __name__ == "__main__":
    main()
