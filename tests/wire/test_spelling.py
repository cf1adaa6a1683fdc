"""wire.spelling: ids and names a protocol allows, and the way back."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.each import each
from tieline.wire.shared.spelling import ID_LIMIT, NAME_LIMIT, ToolNames, plain_id, restore_id, short_id

ALLOWED = re.compile(r"[A-Za-z0-9_-]+\Z")


@given(st.text(max_size=200))
def test_090_every_id_becomes_plain_and_comes_back(call_id: str) -> None:
    plain = plain_id(call_id, limit=4000)
    assert ALLOWED.match(plain)
    assert restore_id(plain) == call_id


@given(st.text(alphabet="tlx_-2eabcé.: \ud83d", max_size=30))
def test_090_ids_that_look_like_ours_come_back_too(call_id: str) -> None:
    assert restore_id(plain_id(call_id, limit=4000)) == call_id


@given(st.lists(st.text(alphabet="ab-_.:", max_size=70), unique=True, max_size=20))
def test_091_different_ids_stay_different_within_the_limit(ids: list[str]) -> None:
    plain = [plain_id(call_id) for call_id in ids]
    assert len(set(plain)) == len(ids)
    assert all(len(call_id) <= ID_LIMIT and ALLOWED.match(call_id) for call_id in plain)


@pytest.mark.parametrize("call_id", ["toolu_01A", "call_abc-1", "x" * 64])
def test_090_a_plain_id_stays_as_it_is(call_id: str) -> None:
    assert plain_id(call_id) == restore_id(call_id) == short_id(call_id) == call_id


def test_090_the_spelling_of_an_escaped_id_does_not_change() -> None:
    """Ours: prompt caches and parked runs know an id by its spelling."""
    assert plain_id("functions.bash:0") == "tlx_functions-2ebash-3a0"


def test_091_a_long_id_is_hashed_and_not_cut() -> None:
    one, other = "x" * 64 + "1", "x" * 64 + "2"
    assert len({plain_id(one), plain_id(other), short_id(one), short_id(other)}) == 2
    assert plain_id(one) == plain_id(one)
    assert len(short_id("y" * 41, 40)) <= 40


@pytest.mark.parametrize("call_id", ["tlx_-zz", "tlx_-ff", "tlx_日本"])
def test_restoring_what_we_never_wrote_does_not_fail(call_id: str) -> None:
    assert restore_id(call_id)


NAMES = st.text(max_size=100) | st.text(alphabet="ab._-", max_size=8)


@given(st.lists(NAMES, max_size=20))
def test_092_names_are_spelled_plainly_without_collision_and_restored(names: list[str]) -> None:
    spelling = ToolNames(names)
    spelled = {name: spelling.to_upstream(name) for name in names}
    assert len(set(spelled.values())) == len(spelled)
    for name, plain in spelled.items():
        assert re.fullmatch(rf"[A-Za-z0-9_-]{{1,{NAME_LIMIT}}}", plain)
        assert spelling.to_client(plain) == name


def test_092_a_plain_name_stays_even_when_an_odd_one_would_be_spelled_like_it() -> None:
    spelling = ToolNames(["a.b", "a_b"])
    assert spelling.to_upstream("a_b") == "a_b"
    assert spelling.to_upstream("a.b") != "a_b"


def test_092_a_name_that_is_no_longer_offered_is_spelled_plainly() -> None:
    spelling = ToolNames(["read"])
    assert spelling.to_upstream("fs.read") == "fs_read"
    assert spelling.to_upstream("write") == "write"


def test_092_the_spelling_of_a_name_does_not_depend_on_the_order_of_the_tools() -> None:
    """Ours: a prompt cache is lost when a name changes its spelling between two requests."""
    names = ["a.b", "a_b", "x" * 80]
    one, other = ToolNames(names), ToolNames(reversed(names))
    assert [one.to_upstream(name) for name in names] == [other.to_upstream(name) for name in names]


@each(
    ("offered", "called", "restored"),
    [
        (["bash", "read"], "Bash", "bash"),
        (["Bash", "Read"], "bash", "Bash"),
        (["mcp__files__read"], "read", "mcp__files__read"),
        (["read"], "mcp__files__read", "read"),
        (["get_weather"], "getWeather", "get_weather"),
        (["get.weather"], "get_weather", "get.weather"),
        (["get.weather"], "Get_Weather", "get.weather"),
        (["bash", "Bash"], "BASH", "BASH"),
        (["bash", "Bash"], "Bash", "Bash"),
        (["mcp__a__read", "mcp__b__read"], "read", "read"),
        (["bash"], "shell", "shell"),
        (["read", "agents__spawn"], "spawn", "agents__spawn"),
        (["spawn", "agents__spawn"], "spawn", "spawn"),
        (["agents__spawn", "clock__spawn"], "spawn", "spawn"),
        (["agents__spawn"], "agents", "agents"),
        (["日本"], "", ""),
        ([], "anything", "anything"),
    ],
)
def test_093_a_name_whose_case_or_prefix_was_changed_is_restored(
    offered: list[str], called: str, restored: str
) -> None:
    assert ToolNames(offered).to_client(called) == restored


def test_by_default_nothing_is_respelled() -> None:
    assert ToolNames().to_client("Bash") == "Bash"
