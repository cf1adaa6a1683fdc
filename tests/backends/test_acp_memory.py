"""What survives the gateway of its sessions: conversations are known again, and nothing of what was said is kept."""

import asyncio
import base64
import json
import logging
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.backends.acp_support import SOON, Reply, Talk, plain, serving, until, user
from tieline.app.database.documents import MemoryStore, open_store
from tieline.app.database.sqlite import FILE_NAME
from tieline.backends.acp.catalogue import AgentSpec
from tieline.backends.acp.session_store import MAX_AGE, MAX_ITEMS, SHELF, SessionStorage
from tieline.model.content import Message, Text
from tieline.model.ports import Store

NOW = 1_800_000_000.0


class Life:
    """What outlives gateways: what the agent keeps of its sessions, and what the gateway does."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.now = NOW
        self.folder = home / "state"
        self.store: Store | None = None

    @property
    def agent(self) -> AgentSpec:
        return plain("remembers", str(self.home / "memory.json"))

    @property
    def storage(self) -> SessionStorage:
        """For the next gateway; what is on the disk is opened anew."""
        return SessionStorage(self.store or open_store(self.folder), lambda: self.now)

    def contents(self) -> bytes:
        """All that is kept on the disk."""
        return b"".join(path.read_bytes() for path in self.folder.iterdir())

    async def ask(self, words: str, messages: list[Message] | None = None, **terms: Any) -> "tuple[Reply, Talk]":
        """What an agent of a fresh gateway answers, and the conversation."""
        async with serving(self.agent, storage=self.storage, **terms) as backend:
            talk = Talk(backend, "plain")
            talk.messages = list(messages or [])
            return await talk.ask(words), talk


@pytest.fixture
def life(tmp_path: Path) -> Life:
    return Life(tmp_path)


def told(reply: Reply) -> list[str]:
    """All that was said to the agent in this session."""
    prompts: list[str] = json.loads(reply.text)
    return prompts


def answered(text: str) -> Message:
    return Message(role="assistant", parts=(Text(text=text),))


# ── Known again ──────────────────────────────────────────────────────────────────────────────────


async def test_a_conversation_goes_on_in_its_session_over_any_number_of_restarts(life: Life) -> None:
    _, talk = await life.ask("one")
    _, talk = await life.ask("two", talk.messages)
    reply, _ = await life.ask("three", talk.messages)
    assert told(reply) == ["one", "two", "three"]


async def test_what_a_client_shows_beside_the_words_does_not_matter_after_a_restart_either(life: Life) -> None:
    _, talk = await life.ask("one")
    shown = "▸ Edit a.py\n" + talk.messages[1].parts[0].text.replace(",", " ,\n")  # type: ignore[union-attr] # a text
    history = [Message(role="system", parts=(Text(text="It is Tuesday."),)), user("one"), answered(shown)]
    reply, _ = await life.ask("two", history[1:])
    assert told(reply) == ["one", "two"]


@pytest.mark.parametrize("changed", [0, 1])
async def test_a_history_that_was_edited_is_told_to_a_new_session_after_a_restart(life: Life, changed: int) -> None:
    _, talk = await life.ask("one")
    talk.messages[changed] = Message(role=talk.messages[changed].role, parts=(Text(text='["other"]'),))
    reply, _ = await life.ask("two", talk.messages)
    assert len(told(reply)) == 1
    assert "other" in told(reply)[0]


async def test_a_turn_that_was_cancelled_can_be_asked_for_again_after_a_restart(life: Life) -> None:
    async with serving(life.agent, storage=life.storage) as backend:
        talk = Talk(backend, "plain")
        await talk.ask("one")
        run = await _with(talk, "wait").start()
        async with asyncio.timeout(SOON):
            await anext(aiter(run.leg()))
        await run.aclose()
    reply, _ = await life.ask("two", talk.messages)
    assert told(reply) == ["one", "wait", "two"], "as far as the client knows, nothing came of the second turn"


@pytest.mark.parametrize("seen", ["", '["one", "wai', '["one", "wait"]'])
async def test_whatever_a_client_has_seen_of_a_cancelled_turn_the_session_is_known_again(life: Life, seen: str) -> None:
    async with serving(life.agent, storage=life.storage) as backend:
        talk = Talk(backend, "plain")
        await talk.ask("one")
        run = await _with(talk, "wait").start()
        async with asyncio.timeout(SOON):
            await anext(aiter(run.leg()))
        await run.aclose()
    reply, _ = await life.ask("two", [*talk.messages, user("wait"), *([answered(seen)] if seen else [])])
    assert told(reply) == ["one", "wait", "two"]


def _with(talk: Talk, words: str) -> Talk:
    """The same conversation with something more said, for a client that will not see the answer."""
    other = Talk(talk.backend, talk.model)
    other.messages = [*talk.messages, user(words)]
    return other


async def test_a_session_that_the_agent_has_lost_is_told_everything_and_its_successor_is_remembered(life: Life) -> None:
    _, talk = await life.ask("one")
    (life.home / "memory.json").unlink()
    reply, talk = await life.ask("two", talk.messages)
    (prompt,) = told(reply)
    assert "User: one" in prompt
    reply, _ = await life.ask("three", talk.messages)
    assert told(reply) == [prompt, "three"]


async def test_a_gateway_in_another_folder_leaves_the_session_alone(life: Life, tmp_path: Path) -> None:
    _, talk = await life.ask("one")
    reply, _ = await life.ask("two", talk.messages, cwd=str(tmp_path))
    assert len(told(reply)) == 1
    reply, _ = await life.ask("two", talk.messages)
    assert told(reply) == ["one", "two"]


async def test_it_is_kept_when_the_turn_is_over_and_not_when_the_gateway_ends(life: Life) -> None:
    life.store = MemoryStore()
    async with serving(life.agent, storage=life.storage) as backend:
        _, store = await Talk(backend, "plain").ask("one"), life.store
        kept: Mapping[str, bytes] = {}
        async with asyncio.timeout(SOON):
            while not kept:
                kept = await store.read(SHELF)
                await asyncio.sleep(0)
    assert await store.read(SHELF) == kept


# ── What is kept ─────────────────────────────────────────────────────────────────────────────────


async def test_nothing_of_what_was_said_is_kept(life: Life) -> None:
    system = Message(role="system", parts=(Text(text="Confidential instructions of the house."),))
    _, talk = await life.ask("Remember the password swordfish-4711", [system])
    kept = life.contents()
    assert b"plain" in kept, "the agent is named"
    said = "".join(part.text for message in talk.messages for part in message.parts if isinstance(part, Text))
    for text in (said, "".join(said.split())):
        for at in range(len(text) - 5):
            piece = text[at : at + 6].encode()
            assert piece not in kept
            assert base64.b64encode(piece)[:6] not in kept


async def test_only_its_owner_can_read_it(life: Life) -> None:
    await life.ask("one")
    assert stat.S_IMODE(life.folder.stat().st_mode) == 0o700
    modes = {stat.S_IMODE(path.stat().st_mode) for path in life.folder.iterdir()}
    assert modes == {0o600}


async def test_nothing_is_kept_of_an_agent_that_cannot_take_a_session_up_again(life: Life) -> None:
    async with serving(plain("echo"), storage=life.storage) as backend:
        await Talk(backend, "plain").ask("one")
    assert not life.folder.exists()


# ── Bounds ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("later", "is_known"), [(MAX_AGE - 1, True), (MAX_AGE + 1, False)])
async def test_a_session_is_remembered_for_a_month(life: Life, later: float, is_known: bool) -> None:
    life.store = store = MemoryStore()
    _, talk = await life.ask("one")
    life.now += later
    reply, _ = await life.ask("two", talk.messages)
    assert (told(reply) == ["one", "two"]) is is_known
    assert len(await store.read(SHELF)) == 1, "what is too old is removed"


async def test_only_so_many_sessions_are_kept(life: Life) -> None:
    life.store = store = MemoryStore()
    talks = []
    for words in ("one", "two", "three"):
        life.now += 1
        talks.append((await life.ask(words))[1])
    assert len(await store.read(SHELF)) == 3
    reply, _ = await life.ask("four", talks[0].messages, sessions=2)
    assert len(told(reply)) == 1, "the oldest is forgotten"
    assert len(await store.read(SHELF)) == 2
    reply, _ = await life.ask("four", talks[2].messages)
    assert told(reply) == ["three", "four"]


async def test_sessions_in_other_folders_do_not_count(life: Life, tmp_path: Path) -> None:
    life.store = MemoryStore()
    _, talk = await life.ask("one")
    for words in ("two", "three"):
        life.now += 1
        await life.ask(words, cwd=str(tmp_path), sessions=1)
    reply, _ = await life.ask("four", talk.messages)
    assert told(reply) == ["one", "four"]


async def test_a_conversation_that_is_too_long_is_not_kept(life: Life) -> None:
    life.store = store = MemoryStore()
    history = [user("one"), *([user("more"), answered("yes")] * (MAX_ITEMS // 2))]
    await life.ask("two", history)
    assert await store.read(SHELF) == {}


# ── What cannot be read or written ───────────────────────────────────────────────────────────────


FOREIGN = {
    "no JSON": b"\x00\xff not JSON",
    "something else": b'{"agent": 7}',
    "a list": b"[1, 2]",
    "deep": b'{"agent":' * 5000,
    "a wrong digest": b'{"agent":"plain","session":"s","folder":"/","used":1,"system":["?"],"tools":false,"pasts":[]}',
}


@pytest.mark.parametrize("document", FOREIGN.values(), ids=FOREIGN.keys())
async def test_what_cannot_be_read_is_forgotten_with_one_line(
    life: Life, document: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    life.store = store = MemoryStore()
    _, talk = await life.ask("one")
    for key in ("a", "b"):
        await store.write(SHELF, key, document)
    with caplog.at_level(logging.INFO, "tieline"):
        reply, _ = await life.ask("two", talk.messages)
    assert told(reply) == ["one", "two"]
    assert [record.getMessage() for record in caplog.records if "could not be read" in record.getMessage()] == [
        "removed 2 stored agent sessions that could not be read"
    ]
    assert {"a", "b"}.isdisjoint(await store.read(SHELF))


async def test_documents_keep_their_field_names(life: Life) -> None:
    """They are a file format: another version of the gateway reads them."""
    await life.ask("one")
    (document,) = (await open_store(life.folder).read(SHELF)).values()
    stored = json.loads(document)
    assert set(stored) == {"agent", "session", "folder", "used", "system", "tools", "pasts"}
    assert set(stored["pasts"][0]) == {"items"}


async def test_a_damaged_file_is_put_aside_with_one_line(life: Life, caplog: pytest.LogCaptureFixture) -> None:
    life.folder.mkdir()
    (life.folder / FILE_NAME).write_bytes(b"this is no database" * 1000)
    with caplog.at_level(logging.INFO, "tieline"):
        reply, talk = await life.ask("one")
    assert told(reply) == ["one"]
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1
    reply, _ = await life.ask("two", talk.messages)
    assert told(reply) == ["one", "two"]


async def test_a_folder_that_cannot_be_made_costs_a_line_and_nothing_else(
    life: Life, caplog: pytest.LogCaptureFixture
) -> None:
    life.folder.write_text("in the way")
    with caplog.at_level(logging.INFO, "tieline"):
        reply, _ = await life.ask("one")
    assert told(reply) == ["one"]
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1


class SlowStore(MemoryStore):
    """A disk that takes its time to write."""

    def __init__(self) -> None:
        super().__init__()
        self.is_writing = asyncio.Event()
        self.may_write = asyncio.Event()

    async def write(self, shelf: str, key: str, data: bytes) -> None:
        self.is_writing.set()
        await self.may_write.wait()
        await super().write(shelf, key, data)


async def test_nobody_waits_for_the_disk_but_the_end_of_the_gateway(life: Life) -> None:
    life.store = store = SlowStore()
    async with serving(life.agent, storage=life.storage) as backend:
        talk = Talk(backend, "plain")
        await talk.ask("one")
        await until(store.is_writing.is_set)
        assert told(await talk.ask("two")) == ["one", "two"]
        assert await store.read(SHELF) == {}
        store.may_write.set()
    (document,) = (await store.read(SHELF)).values()
    assert len(json.loads(document)["pasts"][0]["items"]) == 4, "what is written last is what counts"
