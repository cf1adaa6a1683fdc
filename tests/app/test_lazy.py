"""What is loaded later: that it is what the type checker thinks it is, made once, and not in anybody's way."""

import ast
import asyncio
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.backends.acp_support import Person
from tieline.app.build.cursor import CURSOR_MODES
from tieline.app.lazy import LazyImport
from tieline.app.lazy_backend import LazyBackend, LazyObject
from tieline.backends.demo import DemoBackend
from tieline.model.content import Message, Text
from tieline.model.events import Finished
from tieline.model.ports import Backend, Host, ModelInfo
from tieline.model.request import Request
from tieline.wire.cursor.opening.model_choice import MODES

SOURCES = Path(__file__).parents[2] / "src"
PATIENCE = 60.0


# ── What is named ────────────────────────────────────────────────────────────────────────────────


class Named(NamedTuple):
    """Something of another module under a name of one's own."""

    name: str
    module: str
    original: str


def is_lazily(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "LazyImport"


def imported(branch: Sequence[ast.stmt]) -> set[Named]:
    froms = [node for node in branch if isinstance(node, ast.ImportFrom)]
    return {Named(one.asname or one.name, str(node.module), one.name) for node in froms for one in node.names}


def lazy(branch: Sequence[ast.stmt]) -> set[Named]:
    """What the assignments of a branch name, as `name = LazyImport("module", "original")`."""
    found = set()
    for node in branch:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and is_lazily(node.value):
            target, (module, original) = node.targets[0], node.value.args
            assert isinstance(target, ast.Name)
            found.add(Named(target.id, ast.literal_eval(module), ast.literal_eval(original)))
    return found


def using() -> list[Path]:
    files = sorted(SOURCES.rglob("*.py"))
    trees = {path: ast.parse(path.read_text("utf-8")) for path in files if "LazyImport(" in path.read_text("utf-8")}
    return [path for path, tree in trees.items() if any(map(is_lazily, ast.walk(tree)))]


@pytest.mark.parametrize("path", using(), ids=lambda path: path.stem)
def test_what_is_loaded_later_is_what_the_type_checker_sees(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    named = set()
    for node in tree.body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            assert lazy(node.orelse) <= imported(node.body)
            named |= lazy(node.orelse)
    assert len(named) == sum(map(is_lazily, ast.walk(tree)))
    for one in named:
        assert callable(LazyImport(one.module, one.original).load())


def test_the_modes_of_cursor_are_those_it_has() -> None:
    """They are told before any of its code is loaded."""
    assert tuple(MODES) == CURSOR_MODES


# ── When it is made ──────────────────────────────────────────────────────────────────────────────

MODULE = """
import threading

where = threading.current_thread()

def make(*args):
    return [*args, where]
"""


@pytest.fixture
def heavy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that is not loaded yet and notes which thread loads it."""
    (tmp_path / "heavy_part.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "heavy_part", raising=False)
    return "heavy_part"


def test_what_is_loaded_lazily_is_loaded_by_the_first_call(heavy: str) -> None:
    make = LazyImport(heavy, "make")
    assert heavy not in sys.modules
    assert make(1) == [1, threading.current_thread()]
    assert heavy in sys.modules


async def test_what_many_wait_for_is_made_once_and_loaded_in_a_thread(heavy: str) -> None:
    later: LazyObject[list[object]] = LazyObject(LazyImport(heavy, "make"), "given")
    assert later.made is None
    async with asyncio.timeout(PATIENCE):
        first, second = await asyncio.gather(later.get(), later.get())
    assert first is second is later.made is later.now()
    given, thread = first
    assert given == "given"
    assert thread is not threading.current_thread()


class Watched(DemoBackend):
    """The demo model, which tells whether it was closed."""

    is_closed = False

    async def aclose(self) -> None:
        self.is_closed = True


async def test_a_backend_that_nobody_uses_is_never_made() -> None:
    later: LazyObject[Backend] = LazyObject(Watched)
    backend = LazyBackend("late", later, is_agent=True, reads_options=True, models=lambda: [ModelInfo(id="known")])
    assert (backend.name, backend.is_agent, backend.reads_options) == ("late", True, True)
    assert [info.id for info in await backend.models()] == ["known"]
    await backend.aclose()
    assert later.made is None


async def test_a_backend_is_made_when_it_is_used_and_closed_then() -> None:
    demo = Watched()
    backend = LazyBackend("late", LazyObject(lambda: demo))
    assert await backend.models() == await demo.models()
    request = Request(model="scripted", messages=(Message(role="user", parts=(Text(text="Hello"),)),))
    assert await backend.count(request) is None
    run = await backend.start(request, Host(Person()))
    assert isinstance([batch async for batch in run.leg()][-1][-1], Finished)
    assert not demo.is_closed
    await backend.aclose()
    assert demo.is_closed
