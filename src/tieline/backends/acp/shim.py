"""Carries MCP between standard streams and HTTP, for agents that only start programs: run as a script, by itself.

One message on each line of standard input is one POST; what comes back, as JSON or as a stream of events, is written
to standard output line by line. Requests are made side by side. It ends with its standard input, and knows nothing but
the standard library: it is run by an agent, without anything of ours around it.
"""

import http.client
import json
import os
import sys
import threading
from typing import Any
from urllib.parse import urlsplit

WAIT = 24 * 3600
"""A tool of a client may take its time."""

HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


class Carrier:
    """Sends messages to one address and writes what comes back."""

    def __init__(self, url: str, out: Any) -> None:
        self._where = urlsplit(url)
        self._out = out
        self._lock = threading.Lock()
        self._version = ""

    def carry(self, line: bytes) -> None:
        """One message there, its answers back; a request that cannot be delivered is answered with an error."""
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
        """What was agreed on at the beginning is said with every request after it."""
        if self._version or b"protocolVersion" not in message:
            return
        try:
            version = json.loads(message)["result"]["protocolVersion"]
        except (ValueError, KeyError, TypeError):
            return
        self._version = str(version)

    def _fail(self, line: bytes, why: str) -> None:
        try:
            asked = json.loads(line)
            number = asked["id"]
        except (ValueError, KeyError, TypeError):
            return
        error = {"jsonrpc": "2.0", "id": number, "error": {"code": -32603, "message": why}}
        self._write(json.dumps(error).encode())


def main() -> None:
    """Carry until there is nothing more to carry."""
    carrier = Carrier(os.environ["TIELINE_MCP_URL"], sys.stdout.buffer)
    for line in sys.stdin.buffer:
        if line.strip():
            # The first message has to be through before the others: they depend on what it agrees on.
            if b'"initialize"' in line:
                carrier.carry(line)
            else:
                threading.Thread(target=carrier.carry, args=(line,), daemon=True).start()


if __name__ == "__main__":
    main()
