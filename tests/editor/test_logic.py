"""The parts of the editor extension that need no editor, run by Node's test runner."""

import asyncio
import shutil
from pathlib import Path

import pytest

from editor.build import HERE, write_bundle

NODE = shutil.which("node")
TESTS = sorted((HERE / "test").glob("*.test.js"))


@pytest.mark.skipif(NODE is None, reason="Node is not installed")
async def test_the_tests_of_the_extension_pass() -> None:
    assert TESTS
    write_bundle()  # one of the tests loads it
    process = await asyncio.create_subprocess_exec(
        str(NODE), "--test", *map(str, TESTS), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(120):
        output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()


def test_each_module_is_part_of_the_bundle() -> None:
    bundle = write_bundle().read_text("utf-8")
    for module in sorted((HERE / "src").glob("*.js")):
        assert f'"./{module.stem}"(module' in bundle, f"{Path(module).name} is not used"
