"""Builds the editor extension without downloads: the bundle that editors load, and the package that users install.

    python editor/build.py bundle           write editor/dist/extension.js
    python editor/build.py vsix [FOLDER]    write FOLDER/tieline-<version>.vsix (default: dist)

Web extension hosts load a single file, so the bundle holds all modules of editor/src in one table.
"""

import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

HERE = Path(__file__).parent
ROOT = HERE.parent
ENTRY = "extension"
PACKAGED = ("package.json", "README.md", "dist/extension.js", "media/*", "syntaxes/*")
"""What the package contains, as patterns below `editor/`. The licence of the project is added."""
TIMESTAMP = (2020, 1, 1, 0, 0, 0)
"""The time of every file in the package. It is fixed, so that the same sources give the same bytes."""

_REQUIRE = re.compile(r"""require\(\s*(['"])(\./[\w-]+)\1\s*\)""")
_PROLOGUE = """\
// Built by editor/build.py from editor/src.
"use strict";
const outerRequire = require;
const modules = {
"""
_EPILOGUE = """\
};
const loaded = {};
function load(name) {
  if (!(name in modules)) return outerRequire(name);
  if (!(name in loaded)) {
    const module = { exports: {} };
    loaded[name] = module;
    modules[name](module, module.exports, load);
  }
  return loaded[name].exports;
}
module.exports = load("./%s");
"""


class BuildError(Exception):
    """The sources cannot be built. The message names the file."""


def bundle() -> str:
    """Return the source of the bundle: all modules that the entry needs, directly or indirectly."""
    sources: dict[str, str] = {}
    needed = [f"./{ENTRY}"]
    while needed:
        name = needed.pop()
        if name in sources:
            continue
        path = HERE / "src" / f"{name[2:]}.js"
        if not path.is_file():
            raise BuildError(f"editor/src/{name[2:]}.js does not exist, but is required")
        sources[name] = path.read_text("utf-8")
        needed += [match[2] for match in _REQUIRE.finditer(sources[name])]
    entries = [
        f"{json.dumps(name)}(module, exports, require) {{\n{sources[name].rstrip()}\n}},\n" for name in sorted(sources)
    ]
    return _PROLOGUE + "".join(entries) + _EPILOGUE % ENTRY


def write_bundle() -> Path:
    """Write the bundle and return its path."""
    path = HERE / "dist" / "extension.js"
    path.parent.mkdir(exist_ok=True)
    path.write_text(bundle(), "utf-8")
    return path


def write_package(folder: Path) -> Path:
    """Write the bundle and the .vsix package into a folder, and return the path of the package."""
    write_bundle()
    manifest = json.loads((HERE / "package.json").read_text("utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{manifest['name']}-{manifest['version']}.vsix"
    files = dict(_files())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
        for name, data in (
            ("extension.vsixmanifest", _vsix_manifest(manifest).encode()),
            ("[Content_Types].xml", _content_types(files).encode()),
            *sorted(files.items()),
        ):
            entry = zipfile.ZipInfo(name, TIMESTAMP)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            package.writestr(entry, data)
    return path


def _files() -> Iterator[tuple[str, bytes]]:
    """Yield the name in the package and the content of each file."""
    for pattern in PACKAGED:
        found = sorted(path for path in HERE.glob(pattern) if path.is_file())
        if not found:
            raise BuildError(f"editor/{pattern} does not exist")
        for path in found:
            yield f"extension/{path.relative_to(HERE).as_posix()}", path.read_bytes()
    yield "extension/LICENSE.txt", (ROOT / "LICENSE").read_bytes()


def _vsix_manifest(manifest: dict[str, Any]) -> str:
    attributes = " ".join(
        f"{name}={quoteattr(value)}"
        for name, value in (
            ("Language", "en-US"),
            ("Id", manifest["name"]),
            ("Version", manifest["version"]),
            ("Publisher", manifest["publisher"]),
        )
    )
    properties = "".join(
        f"      <Property Id={quoteattr(f'Microsoft.VisualStudio.Code.{name}')} Value={quoteattr(value)} />\n"
        for name, value in (
            ("Engine", manifest["engines"]["vscode"]),
            ("ExtensionDependencies", ""),
            ("ExtensionPack", ""),
            ("ExtensionKind", ",".join(manifest["extensionKind"])),
            ("LocalizedLanguages", ""),
            ("ExecutesCode", "true"),
        )
    )
    return f"""<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011" \
xmlns:d="http://schemas.microsoft.com/developer/vsx-schema-design/2011">
  <Metadata>
    <Identity {attributes} />
    <DisplayName>{escape(manifest["displayName"])}</DisplayName>
    <Description xml:space="preserve">{escape(manifest["description"])}</Description>
    <Tags>{escape(",".join([*manifest["keywords"], "__web_extension"]))}</Tags>
    <Categories>{escape(",".join(manifest["categories"]))}</Categories>
    <GalleryFlags>Public</GalleryFlags>
    <Properties>
{properties}    </Properties>
    <License>extension/LICENSE.txt</License>
    <Icon>extension/{escape(manifest["icon"])}</Icon>
  </Metadata>
  <Installation>
    <InstallationTarget Id="Microsoft.VisualStudio.Code" />
  </Installation>
  <Dependencies />
  <Assets>
    <Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json" Addressable="true" />
    <Asset Type="Microsoft.VisualStudio.Services.Content.Details" Path="extension/README.md" Addressable="true" />
    <Asset Type="Microsoft.VisualStudio.Services.Content.License" Path="extension/LICENSE.txt" Addressable="true" />
    <Asset Type="Microsoft.VisualStudio.Services.Icons.Default" Path="extension/{escape(manifest["icon"])}" \
Addressable="true" />
  </Assets>
</PackageManifest>
"""


_TYPES = {
    ".css": "text/css",
    ".js": "application/javascript",
    ".json": "application/json",
    ".md": "text/markdown",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".vsixmanifest": "text/xml",
}


def _content_types(files: dict[str, bytes]) -> str:
    endings = sorted({Path(name).suffix for name in files} | {".vsixmanifest"})
    defaults = "".join(
        f"  <Default Extension={quoteattr(ending)} ContentType={quoteattr(_TYPES[ending])} />\n" for ending in endings
    )
    return f"""<?xml version="1.0" encoding="utf-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
{defaults}</Types>
"""


def main(arguments: list[str]) -> int:
    """Run one of the commands that the docstring of this module lists, and return the exit status."""
    match arguments:
        case ["bundle"]:
            path = write_bundle()
        case ["vsix"]:
            path = write_package(ROOT / "dist")
        case ["vsix", folder]:
            path = write_package(Path(folder))
        case _:
            sys.stderr.write(f"{__doc__}\n")
            return 2
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
