"""Serves the workbench, extensions and the files of open folders to a browser, on one port of the loopback interface.

The workbench is `http://app.tieline.localhost:PORT/`, and each webview has a subdomain of its own: they have to be of
the same site, or Chromium refuses the service worker of a webview.
"""

import json
import mimetypes
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, quote, unquote, urlsplit

SITE = "tieline.localhost"
HERE = Path(__file__).parent
FILES_EXTENSION = HERE / "files_extension"
BUILT_IN = ("theme-defaults", "theme-seti", "markdown-basics", "markdown-language-features", "python", "json", "diff")
"""Extensions of the workbench itself that it loads here."""
CACHED = "max-age=3600"
FILE, FOLDER = 1, 2
"""How the editor's API names what a path is."""


class WorkbenchServer(ThreadingHTTPServer):
    """The server; `mounts` are the folders it serves below `/NAME/`."""

    daemon_threads = True

    def __init__(self, mounts: Mapping[str, Path], extensions: tuple[str, ...], root: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.mounts = {name: folder.resolve() for name, folder in mounts.items()}
        self.extensions = extensions
        self.root = root.resolve()
        self.origin = f"http://app.{SITE}:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of browsers that close a connection."""

    def options(self) -> dict[str, Any]:
        """What the page gives the workbench, besides the folder and the settings that its address names."""
        authority = f"app.{SITE}:{self.server_port}"
        paths = [f"/extensions/{name}" for name in self.extensions]
        paths += [f"/workbench/extensions/{name}" for name in BUILT_IN]
        pre = f"http://{{{{uuid}}}}.{SITE}:{self.server_port}/workbench/out/vs/workbench/contrib/webview/browser/pre/"
        return {
            "additionalBuiltinExtensions": [
                {"scheme": "http", "authority": authority, "path": path, "query": "", "fragment": ""} for path in paths
            ],
            "productConfiguration": {
                "nameShort": "Editor",
                "nameLong": "Editor",
                "applicationName": "editor",
                "dataFolderName": ".editor",
                "version": "1.91.1",
                "webviewContentExternalBaseUrlTemplate": pre,
            },
        }


class Handler(BaseHTTPRequestHandler):
    """One connection of a browser."""

    protocol_version = "HTTP/1.1"
    server: WorkbenchServer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
        """Keep the output of the tests free of requests."""

    def do_GET(self) -> None:
        """Send the page, a static file, or what the file system extension asks for."""
        path, query = self._address()
        if path == "/":
            self._send(self._page(), "text/html; charset=utf-8")
        elif path.startswith("/files/"):
            self._files(path.removeprefix("/files/"), query)
        else:
            self._static(path)

    def do_PUT(self) -> None:
        """Write a file of an open folder."""
        path, query = self._address()
        body = self.rfile.read(int(self.headers["content-length"] or 0))
        target = self._inside(query.get("path", ""))
        if path != "/files/write" or target is None or not target.parent.is_dir():
            self._send(b"", status=HTTPStatus.NOT_FOUND)
            return
        target.write_bytes(body)
        self._send(b"")

    def _address(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        return unquote(parts.path), {name: values[0] for name, values in parse_qs(parts.query).items()}

    def _page(self) -> bytes:
        page = (HERE / "workbench.html").read_text()
        return page.replace("{{OPTIONS}}", json.dumps(self.server.options())).encode()

    def _static(self, path: str) -> None:
        # Served as `/NAME/…` or, for extensions, `/extensions/NAME/…`.
        for mount, folder in self.server.mounts.items():
            if path.startswith(f"/{mount}/"):
                found = (folder / path.removeprefix(f"/{mount}/")).resolve()
                if found.is_file() and found.is_relative_to(folder):
                    kind = mimetypes.guess_type(found.name)[0] or "application/octet-stream"
                    self._send(found.read_bytes(), kind, cache=CACHED if mount == "workbench" else "no-cache")
                    return
        self._send(b"", status=HTTPStatus.NOT_FOUND)

    def _files(self, action: str, query: dict[str, str]) -> None:
        target = self._inside(query.get("path", ""))
        if target is None or not target.exists():
            self._send(b"", status=HTTPStatus.NOT_FOUND)
        elif action == "read" and target.is_file():
            self._send(target.read_bytes(), "application/octet-stream")
        elif action == "list" and target.is_dir():
            entries = [[entry.name, FOLDER if entry.is_dir() else FILE] for entry in sorted(target.iterdir())]
            self._send(json.dumps(entries).encode(), "application/json")
        else:
            stat = target.stat()
            times = {"ctime": int(stat.st_ctime * 1000), "mtime": int(stat.st_mtime * 1000)}
            kind = FOLDER if target.is_dir() else FILE
            self._send(json.dumps({"type": kind, "size": stat.st_size, **times}).encode(), "application/json")

    def _inside(self, path: str) -> Path | None:
        target = Path(path).resolve()
        return target if target.is_relative_to(self.server.root) else None

    def _send(
        self, body: bytes, kind: str = "text/plain", *, status: HTTPStatus = HTTPStatus.OK, cache: str = "no-cache"
    ) -> None:
        self.send_response(status)
        for name, value in (("content-type", kind), ("content-length", str(len(body))), ("cache-control", cache)):
            self.send_header(name, value)
        # Webviews load the workbench's scripts and the extensions' files from another origin of the site.
        self.send_header("access-control-allow-origin", "*")
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving(workbench: Path, extensions: Mapping[str, Path], root: Path) -> Iterator[WorkbenchServer]:
    """Serve the workbench with these extensions; folders below `root` can be opened in it."""
    every = {"files": FILES_EXTENSION, **extensions}
    mounts = {"workbench": workbench} | {f"extensions/{name}": folder for name, folder in every.items()}
    with WorkbenchServer(mounts, tuple(every), root) as server:
        thread = threading.Thread(target=cast(Any, server).serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def window_address(
    server: WorkbenchServer, folder: Path, settings: Mapping[str, Any], *, is_trusted: bool = True
) -> str:
    """Return the address of a window with an open folder. The user has to trust the folder first if it is not."""
    scheme = "tieline-test" if is_trusted else "vscode-vfs"
    asked = {"scheme": scheme, "folder": str(folder.resolve()), "settings": settings}
    return f"{server.origin}/?window={quote(json.dumps(asked))}"
