"""What is said about arguments that do not fit, and that what models see is what is checked."""

from typing import Any

import msgspec
import pytest

from tests.each import each
from tests.tools.calling import call
from tieline.model.content import ToolCall
from tieline.model.request import ToolSpec
from tieline.tools import planning
from tieline.tools.arguments import BadArguments
from tieline.tools.files import READ_FILE
from tieline.tools.shell import RUN_TERMINAL
from tieline.tools.todos import TODO_WRITE
from tieline.tools.toolbox import WorkspaceToolbox
from tieline.wire.shared.schemas import fit_schema

BAD = [
    (READ_FILE, "{}", ["`path` is missing: The file, relative to the workspace"]),
    (READ_FILE, "", ["`path` is missing"]),
    (READ_FILE, '{"path": ', ["not valid JSON"]),
    (READ_FILE, '["a.py"]', ['must be a JSON object, not ["a.py"]']),
    (READ_FILE, '"a.py"', ["must be a JSON object"]),
    (READ_FILE, "null", ["must be a JSON object"]),
    (READ_FILE, '{"path": ""}', ["`path` must not be empty"]),
    (READ_FILE, '{"path": 5}', ["`path` must be a string, not 5"]),
    (READ_FILE, '{"path": null}', ["`path` is missing"]),
    (READ_FILE, '{"path": ["a"]}', ['`path` must be a string, not ["a"]']),
    (READ_FILE, '{"path": "a", "offset": "10"}', ['`offset` must be a whole number, not "10"']),
    (READ_FILE, '{"path": "a", "offset": 1.5}', ["`offset` must be a whole number, not 1.5"]),
    (READ_FILE, '{"path": "a", "offset": true}', ["`offset` must be a whole number, not true"]),
    (READ_FILE, '{"path": "a", "offset": 0}', ["`offset` must be at least 1, not 0"]),
    (READ_FILE, '{"path": "a", "limit": 9999}', ["`limit` must be at most 2000, not 9999"]),
    (READ_FILE, '{"file_path": "a"}', ["`file_path` is unknown", "did you mean `path`?", "`path` is missing"]),
    (READ_FILE, '{"path": "a", "ofset": 2}', ["did you mean `offset`?"]),
    (READ_FILE, '{"path": "a", "x": 2}', ["`x` is unknown: read_file accepts `path`, `offset`, `limit`"]),
    (READ_FILE, '{"offset": "a", "limit": 0, "y": 1}', ["`path`", "`offset`", "`limit`", "`y`"]),
    (READ_FILE, '{"path": "' + "x" * 5000 + '"}', ["at most 4096 characters, not 5000"]),
    (READ_FILE, '{"' + "k" * 500 + '": 1, "path": "a"}', ["kkk…` is unknown"]),
    (READ_FILE, "[" * 5000 + "]" * 5000, ["JSON"]),
    (RUN_TERMINAL, '{"command": "ls", "timeout": 601}', ["at most 600"]),
    (TODO_WRITE, '{"todos": {}}', ["`todos` must be a list, not {}"]),
    (TODO_WRITE, '{"todos": ["x"]}', ['`todos[0]` must be an object, not "x"']),
    (TODO_WRITE, '{"todos": [{"id": "1", "content": "x", "status": "done"}]}', ["`todos[0].status` must be one of"]),
    (TODO_WRITE, '{"todos": [{"id": "1"}]}', ["`todos[0].content` is missing"]),
    (TODO_WRITE, '{"todos": [{"id": "1", "content": "x", "text": "y"}]}', ["`todos[0].text` is unknown: `todos[0]`"]),
    (TODO_WRITE, '{"todos": [], "merge": "yes"}', ['`merge` must be true or false, not "yes"']),
]


@each(("definition", "arguments", "said"), BAD)
def test_a_bad_call_is_told_everything_that_is_wrong_with_it(definition: Any, arguments: str, said: list[str]) -> None:
    with pytest.raises(BadArguments) as told:
        definition.parse(ToolCall(id="1", name=definition.name, arguments=arguments))
    assert [part for part in said if part not in str(told.value)] == []
    assert len(str(told.value)) < 1500


def test_what_is_nearly_right_is_taken() -> None:
    assert READ_FILE.parse(call("read_file", path="a", offset=2.0, limit=None)).offset == 2


def test_many_problems_are_not_all_listed() -> None:
    with pytest.raises(BadArguments) as told:
        READ_FILE.parse(call("read_file", path="a", **{f"unknown_{number}": 1 for number in range(100)}))
    assert str(told.value).count("\n- ") == 8


def specs(box: WorkspaceToolbox) -> list[ToolSpec]:
    return [*box.specs, *planning.SPECS]


def test_every_tool_and_every_argument_is_described(box: WorkspaceToolbox) -> None:
    assert len(specs(box)) == 12
    for spec in specs(box):
        schema = msgspec.json.decode(spec.schema)
        assert spec.description.endswith((".", "?"))
        assert schema["type"] == "object"
        assert [name for name, part in schema["properties"].items() if not part.get("description")] == []


def test_upstreams_take_the_schemas_as_they_are(box: WorkspaceToolbox) -> None:
    for spec in specs(box):
        for style in ("anthropic", "openai"):
            assert fit_schema(spec.schema, style) == (spec.schema, ())


def test_schemas_are_the_same_every_time(box: WorkspaceToolbox, workspace: Any) -> None:
    """Prompt caches are lost when tools change between requests."""
    assert box.specs == WorkspaceToolbox(workspace, environment={}).specs
