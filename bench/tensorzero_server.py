"""Starts the gateway that is embedded in TensorZero's Python package, and writes its address to a file.

    python tensorzero_server.py CONFIG ADDRESS_FILE

The gateway is an HTTP server written in Rust; no Python code runs while it serves a request. Only an internal function
of the package starts it without an OpenAI client.
"""

import sys
import threading
from pathlib import Path

from tensorzero import _start_http_gateway  # type: ignore[import-not-found] # installed in a separate venv


def main() -> None:
    """Serve until the process is terminated."""
    config, address_file = sys.argv[1:]
    address = Path(address_file)
    address.unlink(missing_ok=True)
    gateway = _start_http_gateway(
        config_file=config, clickhouse_url=None, postgres_url=None, valkey_url=None, async_setup=False
    )
    address.write_text(gateway.base_url, encoding="utf-8")
    threading.Event().wait()


if __name__ == "__main__":
    main()
