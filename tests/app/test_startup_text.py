"""What the gateway says when it starts: true, and ready to be pasted."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tieline.app.build.application import build
from tieline.app.config import Config, ServerSettings, ToolSettings, UpstreamSettings, WebSettings

ADDRESS = "http://127.0.0.1:1"
UP = UpstreamSettings(kind="openai", base_url="http://127.0.0.1:9/v1")


def text(config: Config, env: Mapping[str, str] | None = None, source: Path | None = None) -> str:
    return build(config, env or {}, source=source).startup.text(ADDRESS)


def with_upstream(upstream: UpstreamSettings = UP, **settings: object) -> Config:
    return Config(upstreams={"up": upstream}, **settings)  # type: ignore[arg-type] # the test's own keywords


def test_the_configuration_in_use_is_named() -> None:
    assert "Configuration: /x/tieline.toml\n" in text(Config(), source=Path("/x/tieline.toml"))
    assert "Configuration: no file" in text(Config())


def test_no_name_in_the_text_can_control_a_terminal() -> None:
    shown = text(Config(), source=Path("/x\x1b[2J\nTieline is fine/tieline.toml"))
    assert "\x1b" not in shown
    assert "\nTieline is fine" not in shown


def test_a_pattern_is_never_shown_as_a_model() -> None:
    shown = text(with_upstream(default_model="up/*"))
    assert "up/*" not in shown
    assert "ANTHROPIC_MODEL='up/<model>'" in shown
    assert "tieline models" in shown


def test_a_model_of_ones_own_upstream_is_shown_instead_of_the_demo() -> None:
    upstream = UpstreamSettings(kind="openai", base_url="http://127.0.0.1:9/v1", models=("qwen",))
    shown = text(with_upstream(upstream))
    assert "ANTHROPIC_MODEL=up/qwen" in shown
    assert '"model": "up/qwen"' in shown
    assert "ANTHROPIC_MODEL=demo/scripted" in text(Config())


def test_a_new_user_is_shown_to_the_examples_and_the_way_to_a_model() -> None:
    assert f"open {ADDRESS} in a browser, try the examples, and connect a model\n" in text(Config())
    assert f"open {ADDRESS} in a browser\n" in text(with_upstream())
    assert "in a browser" not in text(Config(web=WebSettings(enabled=False)))


def test_the_tools_are_no_model(tmp_path: Path) -> None:
    tools = ToolSettings(enabled=True, workspace=str(tmp_path))
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    assert "try the examples, and connect a model\n" in text(Config(tools=tools), env)
    assert "connect a model" not in text(with_upstream(tools=tools), env)


def test_an_upstream_without_its_key_is_not_suggested() -> None:
    upstream = UpstreamSettings(kind="openai", key_env="UP_KEY", models=("qwen",))
    assert "ANTHROPIC_MODEL=demo/scripted" in text(with_upstream(upstream))
    assert "ANTHROPIC_MODEL=up/qwen" in text(with_upstream(upstream), {"UP_KEY": "sk-1"})


def test_an_upstream_is_configured_and_not_ready_before_it_was_reached() -> None:
    lines = [line.split() for line in text(with_upstream()).splitlines()]
    assert ["up", "configured"] in [line[:2] for line in lines]
    assert ["demo", "ready"] in [line[:2] for line in lines]


def test_claude_code_gets_all_its_models_unless_its_names_lead_somewhere() -> None:
    shown = text(Config())
    for size in ("OPUS", "SONNET", "HAIKU"):
        assert f"ANTHROPIC_DEFAULT_{size}_MODEL=demo/scripted" in shown
    assert "ANTHROPIC_DEFAULT" not in text(Config(aliases={"claude-*": "demo/scripted"}))


def test_without_a_key_any_key_will_do() -> None:
    shown = text(Config())
    assert "any key will do" in shown
    assert "ANTHROPIC_API_KEY=local" in shown
    assert "authorization" not in shown


@pytest.mark.parametrize("is_file", [False, True], ids=["variable", "file"])
def test_with_a_key_the_lines_say_where_it_is_and_never_what_it_is(is_file: bool, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("very-secret")
    config = Config(server=ServerSettings(key_file=str(file) if is_file else None))
    shown = text(config, {} if is_file else {"TIELINE_KEY": "very-secret"})
    key = f"$(cat '{file}')" if is_file else "$TIELINE_KEY"
    assert "very-secret" not in shown
    assert "any key will do" not in shown
    assert f'ANTHROPIC_API_KEY="{key}"' in shown
    assert f'OPENAI_API_KEY="{key}"' in shown
    assert f'-H "authorization: Bearer {key}"' in shown
