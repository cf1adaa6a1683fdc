"""The inbox over HTTP: what waits, as it changes; answers, and what is wrong with some; what was allowed for good."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Coroutine, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import msgspec
import pytest

from tests.catalogue.serving import listening
from tieline.app.build.application import App, build
from tieline.app.config import Config, InboxSettings, ServerSettings, ToolSettings
from tieline.core.inbox.inbox import Inbox, PendingItem
from tieline.frontends.guard import PageToken
from tieline.frontends.http import AsgiCycle, Exchange
from tieline.frontends.inbox import KEEP_ALIVE, InboxFrontend, read_answer
from tieline.model.errors import BadRequest
from tieline.model.inbox import (
    Answer,
    Approval,
    ApprovalAnswer,
    Field,
    InboxItem,
    Origin,
    PlanReview,
    Question,
    QuestionAnswer,
    ReviewAnswer,
)
from tieline.model.rules import Rule
from tieline.tasks import Tasks

T = TypeVar("T")

KEY = "gateway-key"
PATIENCE = 60.0
TLS = ssl.create_default_context()
ORIGIN = Origin(model="m", frontend="chat", client="curl", title="go")
PERMISSION = Approval(title="Run ls", tool="run_terminal", kind="execute", command="ls")
PLAN = PlanReview(title="A plan", plan="1. look")
FORM = Question(message="How many?", fields=(Field(name="answer", kind="number", required=True),))


class Stand:
    """A gateway that listens, and a person with its key."""

    def __init__(self, app: App, http: httpx2.AsyncClient) -> None:
        self.app = app
        self.http = http
        self.inbox = app.gateway.inbox
        self._asking: list[asyncio.Task[Any]] = []

    async def asks(self, ask: InboxItem) -> tuple[str, "asyncio.Task[Answer]"]:
        """Something is asked; its id, and what becomes of it."""
        seen = self.inbox.version
        task = asyncio.create_task(self.inbox.ask(ORIGIN, ask))
        self._asking.append(task)
        await bounded(self.inbox.change(seen))
        return self.inbox.items[-1].id, task

    async def answers(self, item_id: str, answer: Any) -> httpx2.Response:
        return await self.http.post(f"/api/inbox/{item_id}", json=answer)

    async def aclose(self) -> None:
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)


async def bounded(work: Coroutine[Any, Any, T]) -> T:
    async with asyncio.timeout(PATIENCE):
        return await work


async def result(task: "asyncio.Task[T]") -> T:
    return await task


@asynccontextmanager
async def serving(home: Path, *, tools: bool = False, keep_alive: float = 15.0) -> AsyncIterator[Stand]:
    (home / "workspace").mkdir(exist_ok=True)
    config = Config(
        server=ServerSettings(keep_alive=keep_alive),
        inbox=InboxSettings(timeout=60),
        tools=ToolSettings(enabled=tools, workspace=str(home / "workspace")),
    )
    app = build(config, {"TIELINE_KEY": KEY, "HOME": str(home), "PATH": "/usr/bin:/bin"})
    try:
        async with listening(app) as url:
            http = httpx2.AsyncClient(base_url=url, headers={"x-api-key": KEY}, timeout=PATIENCE, verify=TLS)
            async with http:
                stand = Stand(app, http)
                yield stand
                await stand.aclose()
    finally:
        await app.aclose()


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    async with serving(tmp_path) as stand:
        yield stand


class Listening:
    """A stream of the inbox on its way."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self._raw = b""
        self._pieces = response.aiter_raw()

    async def block(self) -> bytes:
        """The next event or comment."""
        async with asyncio.timeout(PATIENCE):
            while b"\n\n" not in self._raw:
                self._raw += await anext(self._pieces)
        block, _, self._raw = self._raw.partition(b"\n\n")
        return block

    async def listing(self) -> list[str]:
        """The ids of the next list."""
        block = await self.block()
        assert block.startswith(b"data: ")
        return [item["id"] for item in json.loads(block[6:])["items"]]


@asynccontextmanager
async def watching(stand: Stand) -> AsyncIterator[Listening]:
    async with stand.http.stream("GET", "/api/inbox/watch") as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Listening(response)


# ── What waits ───────────────────────────────────────────────────────────────────────────────────


async def test_what_waits_is_listed_as_the_values_it_is_made_of(stand: Stand) -> None:
    assert (await stand.http.get("/api/inbox")).json() == {"version": 0, "items": []}
    for ask in (PERMISSION, PLAN, FORM):
        await stand.asks(ask)
    body = (await stand.http.get("/api/inbox")).json()
    assert body["version"] == 3
    items = msgspec.convert(body["items"], tuple[PendingItem, ...])
    assert items == stand.inbox.items
    assert [item.content for item in items] == [PERMISSION, PLAN, FORM]


async def test_whoever_watches_gets_the_list_now_and_on_every_change(stand: Stand) -> None:
    async with watching(stand) as stream:
        assert await stream.listing() == []
        first, _ = await stand.asks(PERMISSION)
        assert await stream.listing() == [first]
        second, _ = await stand.asks(PLAN)
        assert await stream.listing() == [first, second]
        await stand.answers(first, {"option": "deny"})
        assert await stream.listing() == [second]


async def test_whoever_watches_counts_as_being_there_until_they_leave(stand: Stand) -> None:
    assert not stand.inbox.is_watched
    async with watching(stand) as stream:
        await stream.listing()
        assert stand.inbox.is_watched
    async with asyncio.timeout(PATIENCE):
        while stand.inbox.is_watched:
            await stand.http.get("/healthz")


async def test_a_silent_stream_shows_signs_of_life(tmp_path: Path) -> None:
    async with serving(tmp_path, keep_alive=0.01) as stand, watching(stand) as stream:
        assert await stream.listing() == []
        for _ in range(2):
            assert await stream.block() == KEEP_ALIVE.strip()
        item_id, _ = await stand.asks(PERMISSION)
        while (block := await stream.block()).startswith(b":"):
            pass
        assert item_id.encode() in block


def an_exchange(*, leaves: bool) -> tuple[Exchange, list[MutableMapping[str, Any]], asyncio.Event]:
    """An exchange without a socket: what was sent, and an event that is set with the first of it."""
    sent: list[MutableMapping[str, Any]] = []
    begun = asyncio.Event()

    async def receive() -> MutableMapping[str, Any]:
        await begun.wait()
        if not leaves:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)
        if message.get("body"):
            begun.set()

    scope = {"type": "http", "method": "GET", "path": "/api/inbox/watch", "headers": []}
    return Exchange(AsgiCycle(scope, receive, send), 1024), sent, begun


async def test_a_gateway_that_stops_ends_the_stream_as_a_whole_one() -> None:
    inbox, tasks = Inbox(mint=lambda: "1", clock=lambda: 0.0), Tasks()
    exchange, sent, begun = an_exchange(leaves=False)
    serving = asyncio.create_task(InboxFrontend(inbox, tasks, PageToken("token")).watch(exchange))
    await bounded(begun.wait())
    serving.cancel()
    await bounded(result(serving))
    assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    assert not inbox.is_watched
    await tasks.aclose()


async def test_a_listener_that_leaves_is_told_nothing_more() -> None:
    inbox, tasks = Inbox(mint=lambda: "1", clock=lambda: 0.0), Tasks()
    exchange, sent, _ = an_exchange(leaves=True)
    await bounded(InboxFrontend(inbox, tasks, PageToken("token")).watch(exchange))
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert not inbox.is_watched
    await tasks.aclose()


async def test_a_listener_that_takes_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tieline.frontends.http.STALL_TIMEOUT", 0.001)
    inbox, tasks = Inbox(mint=lambda: "1", clock=lambda: 0.0), Tasks()

    async def never() -> MutableMapping[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def stuck(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.body":
            await never()

    scope = {"type": "http", "method": "GET", "path": "/api/inbox/watch", "headers": []}
    await bounded(InboxFrontend(inbox, tasks, PageToken("token")).watch(Exchange(AsgiCycle(scope, never, stuck), 1024)))
    assert not inbox.is_watched
    await tasks.aclose()


async def test_a_listener_that_takes_no_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tieline.frontends.http.STALL_TIMEOUT", 0.001)
    inbox, tasks, begun = Inbox(mint=lambda: "1", clock=lambda: 0.0), Tasks(), asyncio.Event()

    async def never() -> MutableMapping[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def stuck(message: MutableMapping[str, Any]) -> None:
        if begun.is_set():
            await never()
        if message.get("body"):
            begun.set()

    scope = {"type": "http", "method": "GET", "path": "/api/inbox/watch", "headers": []}
    exchange = Exchange(AsgiCycle(scope, never, stuck), 1024)
    serving = asyncio.create_task(InboxFrontend(inbox, tasks, PageToken("token")).watch(exchange))
    await bounded(begun.wait())
    serving.cancel()
    await bounded(result(serving))
    assert not inbox.is_watched
    await tasks.aclose()


# ── Answers ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("ask", "given", "answer"),
    [
        (PERMISSION, {"option": "allow"}, ApprovalAnswer(option="allow")),
        (
            PERMISSION,
            {"type": "permitted", "option": "deny", "reason": "no"},
            ApprovalAnswer(option="deny", reason="no"),
        ),
        (PERMISSION, {"option": None, "reason": "no"}, ApprovalAnswer(reason="no")),
        (PLAN, {"approved": True}, ReviewAnswer(approved=True)),
        (PLAN, {"type": "reviewed", "approved": False, "feedback": "x"}, ReviewAnswer(approved=False, feedback="x")),
        (FORM, {"action": "accept", "values": {"answer": 3}}, QuestionAnswer(values={"answer": 3})),
        (FORM, {"values": {"answer": 3}}, QuestionAnswer(values={"answer": 3})),
        (FORM, {"action": "decline"}, QuestionAnswer(action="decline")),
        (
            FORM,
            {"type": "filled", "action": "cancel", "reason": "later"},
            QuestionAnswer(action="cancel", reason="later"),
        ),
    ],
)
async def test_an_answer_is_taken_by_its_tag_or_in_short(
    stand: Stand, ask: InboxItem, given: Any, answer: Answer
) -> None:
    item_id, asking = await stand.asks(ask)
    response = await stand.answers(item_id, given)
    assert response.status_code == 200
    assert response.json() == {"id": item_id, "answer": msgspec.to_builtins(answer)}
    assert await bounded(result(asking)) == answer


@pytest.mark.parametrize(
    ("ask", "given", "param", "words"),
    [
        (PERMISSION, {"option": "perhaps"}, "option", "allow, always, deny"),
        (PERMISSION, {"option": 5}, "option", "Expected `str | null`"),
        (PERMISSION, {"option": "allow", "approved": True}, None, "cannot be answered with"),
        (PERMISSION, {"approved": True}, None, "cannot be answered with"),
        (PERMISSION, {}, "type", "permitted, reviewed, filled"),
        (PERMISSION, {"type": "nonsense"}, "type", "permitted, reviewed, filled"),
        (PERMISSION, {"type": ["permitted"]}, "type", "permitted, reviewed, filled"),
        (PERMISSION, [], None, "JSON object"),
        (PERMISSION, "allow", None, "JSON object"),
        (PLAN, {"approved": "yes"}, "approved", "Expected `bool`"),
        (PLAN, {"type": "reviewed"}, None, "missing required field `approved`"),
        (FORM, {"values": {"answer": "three"}}, "values.answer", "must be a number"),
        (FORM, {"values": {}}, "values.answer", "is required"),
        (FORM, {"values": {"answer": 3, "other": 4}}, "values.other", "is not a field of the question"),
        (FORM, {"values": [3]}, "values", "Expected `object`"),
        (FORM, {"action": "perhaps"}, "action", "perhaps"),
    ],
)
async def test_a_wrong_answer_is_refused_with_its_place_and_the_ask_still_waits(
    stand: Stand, ask: InboxItem, given: Any, param: str | None, words: str
) -> None:
    item_id, asking = await stand.asks(ask)
    response = await stand.answers(item_id, given)
    assert response.status_code == 400
    error = response.json()["error"]
    assert set(error) == {"message", "param"}
    assert error["param"] == param
    assert words in error["message"]
    assert not asking.done()


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"option": "\xed\xa0\x80"}', b"[" * 100_000, b"null"])
def test_what_is_no_json_object_is_no_answer(body: bytes) -> None:
    with pytest.raises(BadRequest):
        read_answer(body)


@pytest.mark.parametrize("item_id", ["nonsense", "a/b", "%00", "é", "x" * 5000])
async def test_what_does_not_wait_cannot_be_answered(stand: Stand, item_id: str) -> None:
    response = await stand.answers(item_id, {"option": "allow"})
    assert response.status_code == 404
    assert "is waiting" in response.json()["error"]["message"]


async def test_of_two_answers_the_first_counts_and_the_second_is_told(stand: Stand) -> None:
    item_id, asking = await stand.asks(PERMISSION)
    assert (await stand.answers(item_id, {"option": "deny"})).status_code == 200
    assert (await stand.answers(item_id, {"option": "allow"})).status_code == 404
    assert await bounded(result(asking)) == ApprovalAnswer(option="deny")


async def test_it_is_written_down_who_answered(stand: Stand, tmp_path: Path) -> None:
    item_id, asking = await stand.asks(PERMISSION)
    await stand.http.post(f"/api/inbox/{item_id}", json={"option": "deny"}, headers={"user-agent": "a-page/1.0"})
    await bounded(result(asking))
    log = tmp_path / ".local" / "state" / "tieline" / "audit.jsonl"
    asked, decided = map(json.loads, log.read_text().splitlines())
    assert (asked["what"], asked["ask"]["command"]) == ("asked", "ls")
    assert (decided["what"], decided["by"], decided["answer"]["option"]) == ("decided", "a-page/1.0", "deny")


# ── Who may ask ──────────────────────────────────────────────────────────────────────────────────

ROUTES = [
    ("GET", "/api/inbox"),
    ("GET", "/api/inbox/watch"),
    ("POST", "/api/inbox/x"),
    ("GET", "/api/rules"),
    ("DELETE", "/api/rules/x"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"x-api-key": "wrong"}, 401),
        ({"host": "evil.example"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
    ],
)
async def test_nobody_else_may_look_or_answer(
    stand: Stand, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    response = await stand.http.request(method, path, headers=headers)
    assert response.status_code == status
    assert set(response.json()["error"]) == {"message", "param"}


@pytest.mark.parametrize(("method", "path"), [("POST", "/api/inbox"), ("GET", "/api/inbox/x"), ("POST", "/api/rules")])
async def test_a_wrong_method_is_told_which_is_right(stand: Stand, method: str, path: str) -> None:
    response = await stand.http.request(method, path)
    assert response.status_code == 405
    assert response.headers["allow"] in response.json()["error"]["message"]


# ── What was allowed for good ────────────────────────────────────────────────────────────────────


async def test_what_was_allowed_for_good_is_listed_and_revoked(tmp_path: Path) -> None:
    folder = tmp_path / ".config" / "tieline" / "allowed"
    rule = Rule(decision="allow", tool="write_file", path="/a.txt")
    async with serving(tmp_path, tools=True) as stand:
        rulebook = stand.app.tools
        assert rulebook is not None
        await rulebook.remember(rule)
        listed = (await stand.http.get("/api/rules")).json()
        assert listed == {
            "workspace": str(tmp_path / "workspace"),
            "rules": [
                {
                    "id": rule.id,
                    "text": "Writing a.txt",
                    "rule": msgspec.to_builtins(rule),
                    "retired": "",
                }
            ],
        }
        (file,) = folder.glob("*.json")
        assert "/a.txt" in file.read_text()
        response = await stand.http.delete(f"/api/rules/{rule.id}")
        assert (response.status_code, response.json()) == (200, {"id": rule.id, "revoked": True})
        assert (await stand.http.get("/api/rules")).json()["rules"] == []
        assert "/a.txt" not in file.read_text()
        response = await stand.http.delete(f"/api/rules/{rule.id}")
        assert response.status_code == 404
        assert rule.id in response.json()["error"]["message"]
        await rulebook.remember(Rule(decision="allow", tool="run_terminal", command="npm"))
        (old,) = (await stand.http.get("/api/rules")).json()["rules"]
        assert old["retired"] == "its program can run or write anything with the right options"
        assert old["text"] == f"Running “npm” with any read-only arguments (asks again: {old['retired']})"


@pytest.mark.parametrize(("method", "path"), [("GET", "/api/rules"), ("DELETE", "/api/rules/x")])
async def test_without_tools_there_is_nothing_to_allow(stand: Stand, method: str, path: str) -> None:
    response = await stand.http.request(method, path)
    assert response.status_code == 404
    assert "tieline serve --tools" in response.json()["error"]["message"]
