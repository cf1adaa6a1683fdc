"""A scripted agent on the Agent Client Protocol's own Python package: a peer that nothing of ours had a hand in.

    python scripted.py [--can load,resume,close,http] [--memory FILE] [--login] [--servers session|last|first]

A prompt is a program: each line of its last text is a verb and its words. What it says back tells what it saw, so that
tests can ask. With a memory, sessions outlive the process. With `--servers last` (as in OpenCode) or `first` (as in
Hermes) all sessions of the process use one MCP server of a name: the one named last, or first.
"""

import argparse
import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import acp
from acp import schema

MODES = ("default", "plan")
STYLES: dict[str, dict[str, Any]] = {
    "claude": {"title": "mcp__tieline__look_up", "kind": "other", "rawInput": {"word": "fjord"}},
    "codex": {
        "title": "mcp.tieline.look_up",
        "kind": "execute",
        "rawInput": {"server": "tieline", "tool": "look_up", "arguments": {"word": "fjord"}},
        "_meta": {"is_mcp_tool_call": True},
    },
    "copilot": {"title": "tieline-look_up", "kind": "read", "rawInput": {"word": "fjord"}},
    "gemini": {
        "title": "look_up (tieline MCP Server)",
        "kind": "other",
        "content": [{"type": "content", "content": {"type": "text", "text": '{"word":"fjord"}'}}],
    },
    "goose": {"title": "tieline: look up", "kind": "other", "rawInput": {"word": "fjord"}},
    "qwen": {
        "title": '{"word":"fjord"}',
        "kind": "other",
        "rawInput": {"word": "fjord"},
        "_meta": {"toolName": "mcp__tieline__look_up", "provenance": "mcp"},
    },
}
"""How agents tell of a call of the client's tool `look_up`."""


class Session:
    def __init__(self, prompts: list[str]) -> None:
        self.prompts = prompts
        self.mode = "default"
        self.options: dict[str, str | bool] = {"model": "small", "effort": "low", "verbose": False}
        self.servers: list[Any] = []
        self.cwd = ""
        self.cancelled = asyncio.Event()


class Scripted:
    """The agent."""

    def __init__(self, can: set[str], memory: Path | None, login: bool, servers: str) -> None:
        self.can = can
        self.whose_servers = servers
        self.servers: dict[str, Any] = {}
        self.replaced = asyncio.Event()
        self.memory = memory
        self.needs_login = login
        self.sessions: dict[str, Session] = {}
        self.client: Any = None
        self.capabilities: Any = None
        self.opened = 0

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    # ── sessions ──

    async def initialize(self, protocol_version: int, client_capabilities: Any = None, **_: Any) -> Any:
        self.capabilities = client_capabilities
        session: dict[str, Any] = {name: {} for name in ("resume", "close") if name in self.can}
        return schema.InitializeResponse.model_validate(
            {
                "protocolVersion": 1,
                "agentCapabilities": {
                    "loadSession": "load" in self.can,
                    "promptCapabilities": {"image": True, "embeddedContext": True},
                    "mcpCapabilities": {"http": "http" in self.can},
                    "sessionCapabilities": session,
                },
                "authMethods": [{"id": "key", "name": "A key"}],
                "agentInfo": {"name": "scripted", "version": "1"},
            }
        )

    async def authenticate(self, method_id: str, **_: Any) -> Any:
        self.needs_login = False
        return schema.AuthenticateResponse()

    async def new_session(self, cwd: str, mcp_servers: Any = None, **_: Any) -> Any:
        if self.needs_login:
            raise acp.RequestError.auth_required()
        self.opened += 1
        name = f"s{os.getpid()}-{self.opened}"
        session = self.sessions[name] = Session([])
        session.cwd = cwd
        self._connect(session, mcp_servers)
        return schema.NewSessionResponse.model_validate({"sessionId": name, **self._offers(session)})

    async def load_session(self, session_id: str, cwd: str, mcp_servers: Any = None, **_: Any) -> Any:
        session = self._remembered(session_id, mcp_servers)
        for prompt in session.prompts:
            await self.client.session_update(session_id, acp.update_user_message_text(prompt))
            await self.client.session_update(session_id, acp.update_agent_message_text("an old answer"))
        return schema.LoadSessionResponse.model_validate(self._offers(session))

    async def resume_session(self, session_id: str, cwd: str, mcp_servers: Any = None, **_: Any) -> Any:
        return schema.ResumeSessionResponse.model_validate(self._offers(self._remembered(session_id, mcp_servers)))

    async def close_session(self, session_id: str, **_: Any) -> Any:
        self.sessions.pop(session_id, None)
        return schema.CloseSessionResponse()

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> Any:
        self.sessions[session_id].mode = mode_id
        return schema.SetSessionModeResponse()

    async def set_config_option(self, config_id: str, session_id: str, value: str | bool, **_: Any) -> Any:
        session = self.sessions[session_id]
        session.options[config_id] = value
        offers = self._offers(session)
        return schema.SetSessionConfigOptionResponse.model_validate({"configOptions": offers["configOptions"]})

    async def cancel(self, session_id: str, **_: Any) -> None:
        self.sessions[session_id].cancelled.set()

    def _remembered(self, name: str, servers: Any) -> Session:
        stored = json.loads(self.memory.read_text()) if self.memory and self.memory.exists() else {}
        if name not in stored:
            raise acp.RequestError.invalid_params({"reason": "no such session"})
        session = self.sessions[name] = Session(stored[name])
        self._connect(session, servers)
        return session

    def _connect(self, session: Session, servers: Any) -> None:
        session.servers = list(servers or [])
        for server in session.servers:
            if self.whose_servers == "last":
                self.servers[server.name] = server
                self.replaced.set()
                self.replaced = asyncio.Event()
            elif self.whose_servers == "first":
                self.servers.setdefault(server.name, server)

    def _remember(self) -> None:
        if self.memory is not None:
            stored = json.loads(self.memory.read_text()) if self.memory.exists() else {}
            stored |= {name: session.prompts for name, session in self.sessions.items()}
            self.memory.write_text(json.dumps(stored))

    def _offers(self, session: Session) -> dict[str, Any]:
        def select(option: str, category: str, *values: str) -> dict[str, Any]:
            return {
                "id": option,
                "name": option.title(),
                "category": category,
                "type": "select",
                "currentValue": session.options[option],
                "options": [{"value": value, "name": value.title()} for value in values],
            }

        flag = {"id": "verbose", "name": "Verbose", "type": "boolean", "currentValue": session.options["verbose"]}
        modes = [{"id": mode, "name": mode.title()} for mode in MODES]
        return {
            "modes": {"currentModeId": session.mode, "availableModes": modes},
            "configOptions": [
                select("model", "model", "small", "large"),
                select("effort", "thought_level", "low", "high"),
                flag,
            ],
        }

    # ── a turn ──

    async def prompt(self, session_id: str, prompt: list[Any], **more: Any) -> Any:
        session = self.sessions[session_id]
        session.cancelled.clear()
        texts = [block.text for block in prompt if block.type == "text"]
        kinds = [block.type for block in prompt]
        session.prompts.append("\n".join(texts))
        self._remember()
        turn = Doing(self, session_id, session, kinds)
        for line in (texts[-1] if texts else "").splitlines():
            verb, _, words = line.strip().partition(" ")
            deed: Callable[[str], Awaitable[str | None]] | None = getattr(turn, f"do_{verb}", None)
            ending = await deed(words) if deed else None
            if session.cancelled.is_set():
                ending = "cancelled"
            if ending:
                return schema.PromptResponse.model_validate({"stopReason": ending, **turn.usage})
        return schema.PromptResponse.model_validate({"stopReason": "end_turn", **turn.usage})


class Doing:
    """The verbs of a prompt."""

    def __init__(self, agent: Scripted, name: str, session: Session, kinds: list[str]) -> None:
        self.agent = agent
        self.name = name
        self.session = session
        self.kinds = kinds
        self.usage: dict[str, Any] = {}

    async def update(self, update: Any) -> None:
        await self.agent.client.session_update(self.name, update)

    async def say(self, words: str) -> None:
        await self.update(acp.update_agent_message_text(words))

    async def do_say(self, words: str) -> None:
        for word in words.split(" "):
            await self.say(f"{word} ")

    async def do_think(self, words: str) -> None:
        await self.update(acp.update_agent_thought_text(words))

    async def do_message(self, words: str) -> None:
        message, _, text = words.partition(" ")
        block = {"type": "text", "text": text}
        update = {"sessionUpdate": "agent_message_chunk", "messageId": message, "content": block}
        await self.update(schema.AgentMessageChunk.model_validate(update))

    async def do_edit(self, words: str) -> None:
        diff = acp.tool_diff_content("a.py", "new\n", "old\n")
        await self.update(acp.start_tool_call("edit", "Edit a.py", kind="edit", status="pending", content=[diff]))
        await self.update(acp.update_tool_call("edit", status="completed"))

    async def do_run(self, words: str) -> None:
        await self.update(acp.start_tool_call("run", f"Run {words}", kind="execute", status="in_progress"))
        block = acp.tool_content(acp.text_block("done\n"))
        await self.update(acp.update_tool_call("run", status="completed", content=[block]))

    async def do_shell(self, words: str) -> None:
        """A terminal of the agent's own, which the client never created."""
        terminal = acp.tool_terminal_ref("t1")
        started = acp.start_tool_call("sh", words, kind="execute", status="in_progress", content=[terminal])
        await self.update(started)
        for piece in ("one\n", "two\n"):
            told = {"sessionUpdate": "tool_call_update", "toolCallId": "sh"}
            told["_meta"] = {"terminal_output": {"terminal_id": "t1", "data": piece}}  # type: ignore[assignment] # JSON
            await self.update(schema.ToolCallProgress.model_validate(told))
        await self.update(acp.update_tool_call("sh", status="completed"))

    async def do_plan(self, words: str) -> None:
        entries = [acp.plan_entry(step, status="pending") for step in words.split(", ")]
        await self.update(acp.update_plan(entries))

    async def do_fill(self, words: str) -> None:
        await self.update(
            schema.UsageUpdate.model_validate({"sessionUpdate": "usage_update", "used": int(words), "size": 1000})
        )

    async def do_usage(self, words: str) -> None:
        self.usage = {"usage": {"inputTokens": 30, "outputTokens": 12, "totalTokens": 42}}

    async def do_Summarise(self, words: str) -> None:  # noqa: N802 - a verb of the gateway
        """Answer the gateway's request for a summary."""
        await self.say("Summary by the agent.")

    async def do_You(self, words: str) -> None:  # noqa: N802 - a verb of Codex
        """Answer Codex' own request for a summary: You are performing a context checkpoint compaction."""
        await self.say("Summary by the agent.")

    async def do_stop(self, words: str) -> str:
        return words

    async def do_permit(self, words: str) -> None:
        call = {"toolCallId": "p1", "title": f"Run {words}", "kind": "execute", "rawInput": {"command": words}}
        chosen = await self._permission(call, "yes:allow_once", "forever:allow_always", "no:reject_once")
        await self.say(f"chosen {chosen}")

    async def do_peek(self, words: str) -> None:
        call = {"toolCallId": "l1", "title": f"Read {words}", "kind": "read", "locations": [{"path": words}]}
        await self.say(f"chosen {await self._permission(call, 'yes:allow_once', 'no:reject_once')}")

    async def do_exit(self, words: str) -> str | None:
        call = {"toolCallId": "x1", "title": "Ready to code?", "kind": "switch_mode", "rawInput": {"plan": words}}
        chosen = await self._permission(call, "bypass:allow_always", "go:allow_once", "stay:reject_once")
        await self.say(f"chosen {chosen}")
        return None if chosen == "go" else "cancelled"

    async def _permission(self, call: dict[str, Any], *options: str) -> str:
        pairs = [option.split(":") for option in options]
        answer = await self.agent.client.request_permission(
            session_id=self.name,
            tool_call=schema.ToolCallUpdate.model_validate(call),
            options=[schema.PermissionOption(option_id=one, name=one.title(), kind=kind) for one, kind in pairs],  # type: ignore[arg-type] # a literal
        )
        return str(getattr(answer.outcome, "option_id", None) or answer.outcome.outcome)

    async def do_ask(self, words: str) -> None:
        """Ask with a form; its schema is the rest of the line."""
        form = {"type": "object", **json.loads(words)}
        mode = {"mode": "form", "sessionId": self.name, "requestedSchema": form}
        await self._elicit("What shall it be?", schema.ElicitationFormSessionMode.model_validate(mode))

    async def do_visit(self, words: str) -> None:
        mode = {"mode": "url", "sessionId": self.name, "url": words, "elicitationId": "e1"}
        await self._elicit("Please log in.", schema.ElicitationUrlSessionMode.model_validate(mode))

    async def _elicit(self, message: str, mode: Any) -> None:
        answer = await self.agent.client.create_elicitation(message, mode)
        content = getattr(answer, "content", None)
        await self.say(f"{answer.action} {json.dumps(content, sort_keys=True)}")

    async def do_wait(self, words: str) -> str:
        await self.say("waiting")
        await self.session.cancelled.wait()
        await self.say("late words")
        return "cancelled"

    async def do_recall(self, words: str) -> None:
        await self.say(json.dumps(self.session.prompts))

    async def do_settings(self, words: str) -> None:
        await self.say(json.dumps({"mode": self.session.mode, **self.session.options}, sort_keys=True))

    async def do_kinds(self, words: str) -> None:
        await self.say(json.dumps(self.kinds))

    async def do_capabilities(self, words: str) -> None:
        await self.say(self.agent.capabilities.model_dump_json(by_alias=True, exclude_none=True))

    async def do_workplace(self, words: str) -> None:
        servers = [server.model_dump(by_alias=True, exclude_none=True) for server in self.session.servers]
        told = {"cwd": self.session.cwd, "process": str(Path.cwd()), "servers": servers, "pid": os.getpid()}
        await self.say(json.dumps(told))

    async def do_pid(self, words: str) -> None:
        await self.say(str(os.getpid()))

    async def do_die(self, words: str) -> None:
        os._exit(3)

    # ── files and terminals of the client ──

    async def do_read(self, words: str) -> None:
        answer = await self.agent.client.read_text_file(path=words, session_id=self.name)
        await self.say(f"read {answer.content}")

    async def do_terminal(self, words: str) -> None:
        client = self.agent.client
        terminal = await client.create_terminal(command=words, session_id=self.name)
        name = terminal.terminal_id
        ref = [acp.tool_terminal_ref(name)]
        await self.update(acp.start_tool_call("term", words, kind="execute", status="in_progress", content=ref))
        ended = await client.wait_for_terminal_exit(session_id=self.name, terminal_id=name)
        output = await client.terminal_output(session_id=self.name, terminal_id=name)
        await client.release_terminal(session_id=self.name, terminal_id=name)
        await self.update(acp.update_tool_call("term", status="completed"))
        await self.say(f"exit {ended.exit_code}: {output.output}")

    async def do_start(self, words: str) -> None:
        """Start a command and leave it running."""
        terminal = await self.agent.client.create_terminal(command=words, session_id=self.name)
        await self.say(f"started in {terminal.terminal_id}")

    # ── tools of the client ──

    async def do_tools(self, words: str) -> None:
        async with self._mcp() as mcp:
            listed = await mcp.list_tools()
            await self.say(json.dumps({tool.name: tool.input_schema for tool in listed.tools}, sort_keys=True))

    async def do_call(self, words: str) -> None:
        """Call tools, all at once: `name {arguments} ; name {arguments}`."""
        async with self._mcp() as mcp:
            calls = [call.strip().partition(" ") for call in words.split(" ; ")]
            for name, _, _ in calls:
                title = f"mcp__tieline__{name}"
                await self.update(acp.start_tool_call(name, title, kind="other", status="pending"))
            made: asyncio.Future[Any] = asyncio.gather(
                *(mcp.call_tool(name, json.loads(arguments or "{}")) for name, _, arguments in calls)
            )
            replaced: asyncio.Future[Any] = asyncio.ensure_future(self.agent.replaced.wait())
            await asyncio.wait([made, replaced], return_when=asyncio.FIRST_COMPLETED)
            if not made.done():
                made.cancel()
                await self.say("MCP error -32000: Connection closed")
                return
            replaced.cancel()
            results = await made
        for result in results:
            shown = [getattr(part, "text", None) or part.type for part in result.content]
            await self.say(f"{'failed ' if result.is_error else ''}{' '.join(shown)}\n")

    async def do_called(self, words: str) -> None:
        """Call `look_up` of the client, told and asked for as the agent of this name does."""
        told = {"toolCallId": "own", "status": "pending", **STYLES[words]}
        await self.update(schema.ToolCallStart.model_validate({"sessionUpdate": "tool_call", **told}))
        chosen = await self._permission(told, "yes:allow_once", "no:reject_once")
        async with self._mcp() as mcp:
            result = await mcp.call_tool("look_up", {"word": "fjord"})
        await self.update(acp.update_tool_call("own", status="completed"))
        await self.say(f"{chosen}: {result.content[0].text}")

    def _mcp(self) -> Any:
        from tests.backends.agents.mcp_client import connected  # noqa: PLC0415 - costs half a second

        server = self.session.servers[0]
        return connected(self.agent.servers.get(server.name, server))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--can", default="")
    parser.add_argument("--memory", type=Path)
    parser.add_argument("--login", action="store_true")
    parser.add_argument("--servers", default="session")
    options = parser.parse_args()
    agent: Any = Scripted(set(options.can.split(",")), options.memory, options.login, options.servers)
    asyncio.run(acp.run_agent(agent, use_unstable_protocol=True))


if __name__ == "__main__":
    main()
