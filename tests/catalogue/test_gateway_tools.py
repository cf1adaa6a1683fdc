"""Failures around the gateway's own tools."""

from pathlib import Path

from tests.e2e.tools_support import DEMO, DIALECTS, TELL, Dialect, call, script, serving

WRITING = script(call("write_file", path="oc.txt", content="x"), TELL)


@DIALECTS
async def test_174_a_request_for_a_title_runs_no_tool_and_asks_for_no_permission(
    tmp_path: Path, dialect: Dialect
) -> None:
    """OpenCode sends this beside the first turn, to the same model and without tools."""
    system = "You are a title generator. You output ONLY a thread title. Nothing else."
    async with serving(tmp_path, yolo=True) as stand:
        if dialect == "openai":
            await stand.openai.chat.completions.create(
                model=DEMO,
                messages=[{"role": "system", "content": system}, {"role": "user", "content": WRITING}],
            )
        else:
            await stand.anthropic.messages.create(
                model=DEMO, max_tokens=4096, system=system, messages=[{"role": "user", "content": WRITING}]
            )
        assert not (stand.root / "oc.txt").exists()
        await stand.tell(dialect, WRITING)
        assert (stand.root / "oc.txt").exists(), "the same client gets tools for its conversation"
