"""Tests of the configuration file and what is said about mistakes in it."""

from pathlib import Path

import pytest

from tieline.app.config import ConfigError, WorkspaceSettings
from tieline.app.config_file import ConfigFile, load_config, read_config_file
from tieline.model.ports import ModelFacts

GOOD = """\
default_model = "local/qwen"
arguments = "incremental"

[server]
port = 9999

[aliases]
"claude-*" = "local/qwen"

[upstreams.local]
kind = "openai"
base_url = "http://127.0.0.1:8000/v1"
models = ["qwen"]
dialect = { reasoning_field = "reasoning" }

[clients.cursor]
user_agent = "Cursor*"
arguments = "buffered"
"""


def written(tmp_path: Path, text: str) -> ConfigFile:
    return ConfigFile(tmp_path / "tieline.toml", text.encode())


def complaint(tmp_path: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(written(tmp_path, text), {})
    return str(caught.value)


def test_a_full_file_is_understood(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, GOOD), {})
    assert config.server.port == 9999
    assert config.server.host == "127.0.0.1"
    assert config.upstreams["local"].models == ("qwen",)
    assert config.clients["cursor"].arguments == "buffered"


def test_settings_of_models_become_facts(tmp_path: Path) -> None:
    text = '[models."local/*"]\ncontext = 32_000\ninputs = ["text", "image"]\nreasoning = ["low", "high"]\n'
    text += "[models.fast]\ntitle = 'Fast'\nreasoning = false\n[models.deep]\nreasoning = true\n"
    models = load_config(written(tmp_path, text), {}).models
    assert {name: settings.facts() for name, settings in models.items()} == {
        "local/*": ModelFacts(context=32_000, inputs=("text", "image"), thinks=True, efforts=("low", "high")),
        "fast": ModelFacts(title="Fast", thinks=False, efforts=()),
        "deep": ModelFacts(thinks=True),
    }


def test_without_a_file_a_key_in_the_environment_is_an_upstream() -> None:
    config = load_config(None, {"ANTHROPIC_API_KEY": "sk-1"})
    assert list(config.upstreams) == ["anthropic"]
    assert load_config(None, {}).upstreams == {}


def test_an_upstream_of_the_file_goes_before_the_environment(tmp_path: Path) -> None:
    text = '[upstreams.openai]\nkind = "openai"\nbase_url = "http://127.0.0.1:1/v1"\n'
    config = load_config(written(tmp_path, text), {"OPENAI_API_KEY": "sk-1"})
    assert config.upstreams["openai"].base_url == "http://127.0.0.1:1/v1"


def test_an_upstream_with_both_apis_takes_the_dialects_of_both(tmp_path: Path) -> None:
    both = "openai_tools = false\nmax_stop = 2\nid_limit = 40\n"
    text = f'[upstreams.a]\nkind = "openai"\napi = "auto"\n[upstreams.a.dialect]\n{both}'
    config = load_config(written(tmp_path, text), {})
    assert config.upstreams["a"].dialect == {"openai_tools": False, "max_stop": 2, "id_limit": 40}


MISTAKES = {
    "not TOML": ("[server\nport = 1\n", 1, "TOML"),
    "an unknown table": ("[sever]\nport = 1\n", 1, "do you mean `server`"),
    "an unknown setting": ("[server]\n\nprot = 1\n", 3, "do you mean `port`"),
    "a wrong type": ('demo = true\n[server]\nport = "abc"\n', 3, "expected `int`"),
    "a port that is none": ("[server]\nport = 70000\n", 2, "65535"),
    "an unknown kind": ('[upstreams.a]\nkind = "gemini"\n', 2, "upstreams.a.kind"),
    "no kind": ('[upstreams.a]\nbase_url = "http://a"\n', 1, "kind"),
    "a bad address": ('[upstreams.a]\nkind = "openai"\nbase_url = "localhost:8000"\n', 3, "base_url"),
    "a dialect nobody knows": (
        '[upstreams.a]\nkind = "openai"\n[upstreams.a.dialect]\nreasning_field = "x"\n',
        4,
        "reasoning_field",
    ),
    "a dialect of the other API": (
        '[upstreams.a]\nkind = "openai"\napi = "responses"\n[upstreams.a.dialect]\nreplay_reasoning = true\n',
        5,
        "`upstreams.a.dialect.replay_reasoning` is unknown",
    ),
    "a dialect that needs Responses": (
        '[upstreams.a]\nkind = "openai"\n[upstreams.a.dialect]\nopenai_tools = true\n',
        4,
        "`upstreams.a.dialect.openai_tools` is unknown",
    ),
    "an unknown API": ('[upstreams.a]\nkind = "openai"\napi = "completions"\n', 3, "upstreams.a.api"),
    "an API of another kind": (
        '[upstreams.a]\nkind = "anthropic"\napi = "responses"\n',
        3,
        '`upstreams.a.api` is only for upstreams of the kind "openai"',
    ),
    "state without the API that has it": (
        '[upstreams.a]\nkind = "openai"\nstateful = true\n',
        3,
        '`upstreams.a.stateful` needs `api = "responses"` or `api = "auto"`',
    ),
    "an alias to nowhere": ('[aliases]\nfast = "nowhere/x"\n', 2, "aliases.fast"),
    "a default without a backend": ('default_model = "gpt-4o"\n', 1, "default_model"),
    "a wrong value in a list": ('[upstreams.a]\nkind = "openai"\nrepairs = ["magic"]\n', 3, "repairs"),
    "a rule with a wrong word": ('[[tools.rules]]\ndecision = "maybe"\n', 2, "tools.rules.decision"),
    "a rule with a wrong setting": ('[[tools.rules]]\ndecision = "deny"\npaht = "x"\n', 3, "do you mean `path`"),
    "a rule nobody understands": ('[[tools.rules]]\ndecision = "allow"\ncommand = "a; b"\n', 1, "plain words"),
    "the key among what commands see": ('[tools]\nenvironment = ["PATH", "TIELINE_KEY"]\n', 2, "TIELINE_KEY"),
    "an inbox without time": ("[inbox]\ntimeout = 0\n", 2, "inbox.timeout"),
    "a body of less than nothing": ("[server]\nmax_body_mib = -1\n", 2, "`server.max_body_mib`: expected `int` >= 1"),
    "a wait that is no number": ("[server]\nkeep_alive = nan\n", 2, "`server.keep_alive`: expected `float` > 0.0"),
    "a wait without end": ("[parking]\ndeadline = inf\n", 2, "`parking.deadline`: expected `float` <="),
    "no time to connect": (
        '[upstreams.a]\nkind = "openai"\nconnect_timeout = 0\n',
        3,
        "`upstreams.a.connect_timeout`: expected `float` > 0.0",
    ),
    "retries below nothing": ('[upstreams.a]\nkind = "openai"\nretries = -1\n', 3, "`upstreams.a.retries`"),
    "a header name with a space": (
        '[upstreams.a]\nkind = "openai"\n[upstreams.a.headers]\n"a b" = "c"\n',
        3,
        "`upstreams.a.headers.a b`: not a header name",
    ),
    "a header that is ours": (
        '[upstreams.a]\nkind = "openai"\nheaders = { Host = "evil" }\n',
        3,
        "`upstreams.a.headers.Host`: the header 'Host' is set by the HTTP client itself",
    ),
    "a key of many parts": ("a" + ".a" * 20_000 + " = 1\n", 1, "dots"),
    "a model with an unknown setting": ('[models."local/*"]\ncontexts = 1\n', 2, "do you mean `context`"),
    "a model without a context": ('[models."local/qwen2.5*"]\ntools = true\ncontext = 0\n', 3, "expected `int` >= 1"),
    "a model with an unknown input": ('[models."a[bc]"]\ninputs = ["smell"]\n', 2, "`models.a[bc].inputs`"),
    "a model that accepts nothing": ("[models.a]\ninputs = []\n", 2, "`models.a.inputs`"),
    "a model with an unknown effort": ('[models.a]\n\nreasoning = ["lots"]\n', 3, "`models.a.reasoning`"),
    "more output than context": (
        "[models.fast]\ncontext = 1000\nmax_output = 2000\n",
        3,
        "`models.fast.max_output` is 2000: expected at most its `context`, 1000",
    ),
    "an upstream named demo": ('[upstreams.demo]\nkind = "openai"\n', 1, "`demo` is reserved"),
    "an upstream named tools": ('[upstreams.tools]\nkind = "openai"\n', 1, "`tools` is reserved"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_with_its_line(mistake: str, tmp_path: Path) -> None:
    text, line, words = MISTAKES[mistake]
    message = complaint(tmp_path, text)
    assert f"tieline.toml:{line}: " in message
    assert words in message


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read"):
        read_config_file(tmp_path / "none.toml")


def test_tables_nested_beyond_measure_are_refused(tmp_path: Path) -> None:
    assert "nested too deeply" in complaint(tmp_path, "a = " + "[" * 100_000)


def test_a_file_beyond_measure_is_refused_before_it_is_read_whole() -> None:
    with pytest.raises(ConfigError, match="larger than 256 KiB"):
        read_config_file(Path("/dev/zero"))


def test_a_relative_key_file_lies_beside_the_configuration(tmp_path: Path) -> None:
    text = '[server]\nkey_file = "a"\n[cursor]\nkey_file = "~/b"\n[upstreams.x]\nkind = "openai"\nkey_file = "/c"\n'
    text += '[keys.k]\nkey_file = "d"\n'
    config = load_config(written(tmp_path, text), {})
    assert config.server.key_file == str(tmp_path / "a")
    assert config.cursor.key_file == "~/b"
    assert config.upstreams["x"].key_file == "/c"
    assert config.keys["k"].key_file == str(tmp_path / "d")


def test_workspaces_are_read_and_their_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    text = "[workspaces.site]\npath = 'web'\nautonomy = 'edits'\n[workspaces.home]\npath = '~/x'\n"
    workspaces = load_config(written(tmp_path, text), {}).workspaces
    assert workspaces["site"] == WorkspaceSettings(path=str(tmp_path / "web"), autonomy="edits")
    assert workspaces["home"] == WorkspaceSettings(path="~/x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[workspaces.Site]\npath = '/'\n", "1: `Site` cannot name a workspace"),
        ("[workspaces.'../x']\npath = '/'\n", "1: `../x` cannot name a workspace"),
        ("[workspaces.site]\n", "`workspaces.site`: object missing required field `path`"),
        ("[workspaces.site]\npath = ' '\n", "2: `workspaces.site.path` is empty"),
        ("[workspaces.site]\npath = '/'\nautonomy = 'yolo'\n", "3: `workspaces.site.autonomy`: invalid enum value"),
        ("[workspaces.site]\npath = '/'\nautonmy = 'all'\n", "do you mean `autonomy`?"),
    ],
)
def test_a_mistake_in_a_workspace_is_named(tmp_path: Path, text: str, said: str) -> None:
    assert said in complaint(tmp_path, text)
