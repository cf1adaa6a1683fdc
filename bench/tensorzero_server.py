"""Start TensorZero's embedded gateway and write its address to a file.

    python tensorzero_server.py CONFIG ADDRESS_FILE

The package contains the gateway's own HTTP server, written in Rust; no Python runs while it serves a request. Only this
internal function starts it without an OpenAI client around it.
"""

import sys
import threading
from pathlib import Path

from tensorzero import _start_http_gateway  # type: ignore[import-not-found] # it has a venv of its own


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
