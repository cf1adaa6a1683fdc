"""The package of the editor extension has the form that editors and marketplaces expect."""

import json
import re
import struct
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path
from typing import Any

import pytest

from editor.build import HERE, BuildError, bundle, main, write_package
from tieline import __version__

VSX = "{http://schemas.microsoft.com/developer/vsx-schema/2011}"
TYPES = "{http://schemas.openxmlformats.org/package/2006/content-types}"
FIXED_SETTINGS = ("tieline.url", "tieline.command", "tieline.autonomy", "tieline.doNotDisturb", "tieline.startGateway")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return zipfile.ZipFile(write_package(tmp_path_factory.mktemp("vsix")))


@pytest.fixture(scope="module")
def manifest(package: zipfile.ZipFile) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(package.read("extension/package.json"))
    return parsed


def test_the_package_has_the_layout_of_a_vsix(package: zipfile.ZipFile) -> None:
    names = package.namelist()
    assert names[:2] == ["extension.vsixmanifest", "[Content_Types].xml"]
    assert all(name.startswith("extension/") for name in names[2:])
    assert len(names) == len(set(names))
    assert package.testzip() is None


def test_the_package_has_no_files_for_developers(package: zipfile.ZipFile) -> None:
    for name in package.namelist():
        assert not re.search(r"(^|/)(src|test|node_modules)/|jsconfig|\.py$|\.map$|(^|/)\.", name), name


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = write_package(tmp_path / "a"), write_package(tmp_path / "b")
    assert first.name == f"tieline-{__version__}.vsix"
    assert first.read_bytes() == second.read_bytes()


def test_the_vsix_manifest_agrees_with_the_package_json(package: zipfile.ZipFile, manifest: dict[str, Any]) -> None:
    root = ET.fromstring(package.read("extension.vsixmanifest"))  # noqa: S314 - our own file
    identity = root.find(f"{VSX}Metadata/{VSX}Identity")
    assert identity is not None
    assert identity.attrib == {
        "Language": "en-US",
        "Id": "tieline",
        "Version": manifest["version"],
        "Publisher": "tieline",
    }
    properties = {one.attrib["Id"]: one.attrib["Value"] for one in root.iter(f"{VSX}Property")}
    assert properties["Microsoft.VisualStudio.Code.Engine"] == manifest["engines"]["vscode"] == "^1.85.0"
    assert properties["Microsoft.VisualStudio.Code.ExtensionKind"] == "workspace"
    target = root.find(f"{VSX}Installation/{VSX}InstallationTarget")
    assert target is not None
    assert target.attrib == {"Id": "Microsoft.VisualStudio.Code"}
    assets = {one.attrib["Type"]: one.attrib["Path"] for one in root.iter(f"{VSX}Asset")}
    assert assets["Microsoft.VisualStudio.Code.Manifest"] == "extension/package.json"
    assert set(assets.values()) <= set(package.namelist())


def test_each_kind_of_file_has_a_content_type(package: zipfile.ZipFile) -> None:
    root = ET.fromstring(package.read("[Content_Types].xml"))  # noqa: S314 - our own file
    known = {one.attrib["Extension"] for one in root.iter(f"{TYPES}Default")}
    assert {Path(name).suffix for name in package.namelist() if name != "[Content_Types].xml"} <= known


def test_the_files_that_the_package_json_names_exist(package: zipfile.ZipFile, manifest: dict[str, Any]) -> None:
    contributed = manifest["contributes"]
    named = [manifest["main"], manifest["browser"], manifest["icon"]]
    named += [one["icon"] for one in contributed["viewsContainers"]["activitybar"]]
    named += [grammar["path"] for grammar in contributed["grammars"]]
    named += [command["icon"] for command in contributed["commands"] if "/" in command.get("icon", "")]
    for name in named:
        assert f"extension/{name.removeprefix('./')}" in package.namelist(), name
    assert "extension/LICENSE.txt" in package.namelist()


def test_the_version_is_that_of_the_gateway(manifest: dict[str, Any]) -> None:
    assert manifest["version"] == __version__


def test_the_icon_is_a_png_of_a_size_that_marketplaces_accept(package: zipfile.ZipFile) -> None:
    data = package.read("extension/media/icon.png")
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", data[16:24]) == (128, 128)


def test_a_workspace_can_set_nothing(manifest: dict[str, Any]) -> None:
    properties = manifest["contributes"]["configuration"]["properties"]
    assert set(FIXED_SETTINGS) <= set(properties)
    for name, setting in properties.items():
        assert setting["scope"] in ("machine", "application"), name
    assert manifest["capabilities"]["untrustedWorkspaces"]["supported"] == "limited"


def test_each_menu_entry_names_a_command(manifest: dict[str, Any]) -> None:
    commands = {command["command"] for command in manifest["contributes"]["commands"]}
    for menu in manifest["contributes"]["menus"].values():
        for entry in menu:
            assert entry["command"] in commands


def test_the_package_needs_nothing_from_npm(manifest: dict[str, Any]) -> None:
    assert not {"dependencies", "devDependencies", "scripts"} & set(manifest)


def test_the_bundle_requires_no_file(package: zipfile.ZipFile) -> None:
    modules = set(re.findall(r'^"(\./[\w-]+)"\(module', bundle(), re.MULTILINE))
    required = set(re.findall(r'require\("([^"]+)"\)', bundle()))
    assert required - modules == {"vscode"}
    assert package.read("extension/dist/extension.js").decode() == bundle()


def test_a_module_that_does_not_exist_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "extension.js").write_text('require("./missing");', "utf-8")
    monkeypatch.setattr("editor.build.HERE", tmp_path)
    with pytest.raises(BuildError, match=r"editor/src/missing.js does not exist"):
        bundle()


def test_the_command_builds_into_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vsix", str(tmp_path)]) == 0
    assert Path(capsys.readouterr().out.strip()).is_file()
    assert main([]) == 2
    assert "vsix [FOLDER]" in capsys.readouterr().err
    assert HERE.name == "editor"
