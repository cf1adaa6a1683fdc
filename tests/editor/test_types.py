"""TypeScript finds no mistake in the editor extension, which has its types in comments."""

import asyncio
import shutil
from pathlib import Path

import pytest

from editor.build import HERE
from tests.editor.package import NotInstalled, typescript

WRONG = '"use strict";\nconst vscode = require("vscode");\nvscode.window.showWarningMessage(7);\n'


@pytest.fixture(scope="module")
def tools() -> Path:
    if shutil.which("node") is None:
        pytest.skip("Node is not installed")
    try:
        return typescript()
    except NotInstalled as error:
        pytest.skip(f"TypeScript is not available: {error}")


async def check(tools: Path, project: Path) -> tuple[int | None, str]:
    """Run TypeScript on a project. Return its exit status and its output."""
    compiler = tools / "typescript" / "bin" / "tsc"
    process = await asyncio.create_subprocess_exec(
        *("node", str(compiler), "-p", str(project / "jsconfig.json"), "--typeRoots", str(tools / "@types")),
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(180):
        output, _ = await process.communicate()
    return process.returncode, output.decode()


async def test_the_types_of_the_extension_agree(tools: Path) -> None:
    assert await check(tools, HERE) == (0, "")


async def test_a_wrong_use_of_the_editor_is_found(tools: Path, tmp_path: Path) -> None:
    shutil.copy(HERE / "jsconfig.json", tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "wrong.js").write_text(WRONG)
    status, output = await check(tools, tmp_path)
    assert status != 0
    assert "src/wrong.js(3,34): error TS2769" in output
