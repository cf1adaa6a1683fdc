"""Runs `tieline chat`: finds or starts the gateway, opens the conversation, and chats or prints one answer."""

import argparse
import asyncio
import contextlib
import io
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

import msgspec
from msgspec.structs import replace
from rich.console import Console
from rich.text import Text
from rich.theme import Theme

from tieline.app.build.keys import client_keys
from tieline.app.config import Config, ConfigError
from tieline.app.folders import state_folder
from tieline.app.local_gateway import LocalGateway, local_gateway
from tieline.cli.chat import markdown
from tieline.cli.chat.api import ChatApi, GatewayState, ToolsState
from tieline.cli.chat.chat import Chat
from tieline.cli.chat.link import follow
from tieline.cli.chat.models import default_model, find_mode, find_model, modes_of
from tieline.cli.chat.print_mode import AnswerPrinter, Output
from tieline.cli.chat.safe_text import one_line
from tieline.cli.chat.terminal import Terminal, is_capable
from tieline.cli.chat.view import AnswerView
from tieline.cli.gateway_client import GatewayClient
from tieline.model.errors import BadRequest
from tieline.net.client.http import HttpClient, Proxies
from tieline.net.private_files import read_private, write_private
from tieline.tasks import Tasks

Options = argparse.Namespace

MAX_INPUT = 8 << 20
"""Maximum number of bytes read from standard input."""
HISTORY = "chat_history.json"
MAX_HISTORY = 4 << 20


async def run(options: Options, config: Config, env: Mapping[str, str], source: Path | None) -> int:
    """Run `tieline chat` and return the exit status. Raise ConfigError or GatewayError with a message for the user."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # not every terminal can show every character
    is_interactive = not options.prints and _is_terminal(sys.stdin) and _is_terminal(sys.stdout)
    if options.json and is_interactive:
        raise ConfigError("--json needs --print")
    prompt = " ".join(options.prompt)
    if not is_interactive:
        prompt = await asyncio.to_thread(_piped, prompt)
    async with _connected(options, config, env, source) as api:
        state = await api.complete_state()
        session = _session(options, state)
        choice = await _choose(api, state, options, session)
        if is_interactive:
            await _chat(api, state, choice, env, prompt)
            return 0
        return await _print(api, state, choice, prompt, is_json=options.json)


@contextlib.asynccontextmanager
async def _connected(
    options: Options, config: Config, env: Mapping[str, str], source: Path | None
) -> AsyncIterator[ChatApi]:
    """Find or start the gateway, and connect to its API."""
    async with contextlib.AsyncExitStack() as stack:
        client = HttpClient(proxies=Proxies.from_env(env)) if options.url else HttpClient()
        stack.push_async_callback(client.aclose)
        if options.url:
            if options.tools:
                raise ConfigError("--tools cannot change the gateway at --url: start it with `tieline serve --tools`")
            key = next(iter(client_keys(config, env)), None)
            yield _api(client, LocalGateway(options.url, key, is_started=False))
            return
        here = str(Path.cwd())
        config = replace(config, web=replace(config.web, enabled=True))
        if options.tools:
            config = replace(config, tools=replace(config.tools, enabled=True, workspace=here))
        gateway = await stack.enter_async_context(local_gateway(config, env, source=source))
        api = _api(client, gateway)
        if options.tools and not gateway.is_started and not _is_here((await api.state()).tools, here):
            # The running gateway has no tools in this folder.
            own = local_gateway(config, env, source=source, always_start=True)
            api = _api(client, await stack.enter_async_context(own))
        yield api


def _api(client: HttpClient, gateway: LocalGateway) -> ChatApi:
    return ChatApi(GatewayClient(client, gateway.url, gateway.key, name="chat"))


def _is_here(tools: ToolsState, folder: str) -> bool:
    return tools.enabled and tools.workspace is not None and os.path.realpath(tools.workspace) == folder


class _Choice(NamedTuple):
    """The conversation to continue, if any, and the model and mode for a new one."""

    session: str | None
    model: str
    mode: str | None


async def _choose(api: ChatApi, state: GatewayState, options: Options, session: str | None) -> _Choice:
    """Determine the model and mode. Change the conversation to continue, if any, to those that the user named."""
    current = next((one for one in state.sessions if one.id == session), None)
    try:
        model = (
            find_model(state, options.model) if options.model else current.model if current else default_model(state)
        )
        mode = find_mode(state, model, options.mode) if options.mode else current.mode if current else None
    except BadRequest as error:
        raise ConfigError(error.message) from error
    if options.model and mode not in modes_of(state.models, model):
        mode = None  # a mode of the model that the conversation has had so far
    if session is not None and (options.model or options.mode):
        await api.change(session, model=model, mode=mode)
    return _Choice(session, model, mode)


def _session(options: Options, state: GatewayState) -> str | None:
    """Return the id of the conversation to continue, if any."""
    if options.session:
        found = [one.id for one in state.sessions if one.id.startswith(options.session)]
        if len(found) != 1:
            problem = "several conversations" if found else "no conversation"
            raise ConfigError(f"--session: {problem} with an id that begins with `{one_line(options.session, 60)}`")
        return found[0]
    if options.latest:
        if not state.sessions:
            raise ConfigError("--continue: there is no conversation yet")
        return state.sessions[0].id
    return None


# ── At the terminal ──────────────────────────────────────────────────────────────────────────────


async def _chat(api: ChatApi, state: GatewayState, choice: _Choice, env: Mapping[str, str], prompt: str) -> None:
    console = Console(theme=Theme(markdown.STYLES), highlight=False, markup=False, emoji=False)
    is_live = is_capable(env, console)
    chat = Chat(api, state, AnswerView(console, is_live=is_live), model=choice.model, mode=choice.mode)
    terminal = chat.terminal = Terminal(console, sys.stdin, chat.happenings.press, is_capable=is_live)
    file = _history_file(env)
    chat.history = await asyncio.to_thread(_load_history, file)
    _greet(console, state, choice.model if choice.session is None else "")
    tasks = Tasks()
    try:
        with terminal.opened():
            tasks.start(follow(api, state, chat.happenings.hear), "stream")
            await chat.run(prompt, choice.session)
    finally:
        await tasks.aclose()
        await asyncio.to_thread(_save_history, file, chat.history)
    if chat.session is not None:
        console.print(Text("To continue: tieline chat --continue", style="dim"))


def _greet(console: Console, state: GatewayState, model: str) -> None:
    facts = ["Tieline", *([one_line(model, 80)] if model else [])]
    if state.tools.enabled:
        asks = "everything runs without asking" if state.tools.yolo else "changes and commands ask"
        facts.append(f"tools in {one_line(state.tools.workspace or '', 200)}, {asks}")
    console.print(Text(" · ".join(facts), style="dim"))
    console.print(Text("/help lists commands, Ctrl-C stops an answer, Ctrl-D quits.\n", style="dim"))


def _history_file(env: Mapping[str, str]) -> Path | None:
    folder = state_folder(env)
    return None if folder is None else folder / HISTORY


def _load_history(file: Path | None) -> Sequence[str]:
    """Return the messages that were typed in earlier chats."""
    if file is None:
        return ()
    try:
        return msgspec.json.decode(read_private(file, MAX_HISTORY), type=tuple[str, ...])
    except (OSError, ValueError, msgspec.DecodeError):
        return ()


def _save_history(file: Path | None, texts: Sequence[str]) -> None:
    data = msgspec.json.encode(list(texts))
    while len(data) > MAX_HISTORY:
        texts = texts[len(texts) // 2 + 1 :]
        data = msgspec.json.encode(list(texts))
    if file is not None:
        with contextlib.suppress(OSError):  # the chat works without a history
            write_private(file, data)


# ── In a pipe ────────────────────────────────────────────────────────────────────────────────────


def _piped(prompt: str) -> str:
    """Return the prompt, followed by the text from standard input unless that is a terminal."""
    given = ""
    if sys.stdin is not None and not sys.stdin.isatty():
        data = sys.stdin.buffer.read(MAX_INPUT + 1)
        if len(data) > MAX_INPUT:
            raise ConfigError(f"standard input has more than {MAX_INPUT >> 20} MiB")
        given = data.decode("utf-8", "replace")
    text = "\n\n".join(part for part in (prompt, given.strip("\n")) if part.strip())
    if not text:
        raise ConfigError("there is nothing to ask: pass a prompt as an argument or on standard input")
    return text


async def _print(api: ChatApi, state: GatewayState, choice: _Choice, prompt: str, *, is_json: bool) -> int:
    if choice.session is None:
        summary = await api.create(choice.model, choice.mode)
    else:
        summary = (await api.session(choice.session, 1)).summary
    return await AnswerPrinter(api, state, Output(sys.stdout, sys.stderr, is_json)).run(prompt, summary)


def _is_terminal(stream: TextIO | None) -> bool:
    """Return whether a standard stream is a terminal. A closed stream is None."""
    return stream is not None and stream.isatty()
