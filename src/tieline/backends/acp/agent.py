"""One agent process: sends requests to it, delivers the facts (parsed messages) that it reports, and ends it.

A background task reads the output of the process to its end, and delivers the facts in order, each one to the request
that it answers or to the session that it concerns. A waiting request always ends: with a response, with an error when
the process ends, or with a timeout.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tieline.backends.acp.catalogue import NAME, AgentSpec
from tieline.backends.acp.settings import AcpBackendSettings, AgentHost
from tieline.model.errors import GatewayError
from tieline.net.process.program import Process, ProcessError
from tieline.tasks import Tasks
from tieline.wire.acp import facts
from tieline.wire.acp.client_side import ClientOffer, ClientSide
from tieline.wire.acp.facts import Fact

log = logging.getLogger("tieline.acp")

ENDED = "agent_ended"
SILENT = "agent_silent"
NEEDS_LOGIN = "agent_needs_login"

STDERR_SHOWN = 12
"""Number of lines at the end of standard error that are shown when an agent fails."""
LINE_SHOWN = 300
LINGER = 1.0
"""Seconds to wait for an agent's process to end after it has closed its output."""

MAX_ANSWERED = 64
"""If more listeners than this are remembered for requests from the agent, those for answered requests are dropped."""

_INTERPRETER = re.compile(r"(node|nodejs|npx|bun|bunx|deno|python[\d.]*|uv|uvx|sh|bash|env)(\.exe)?")

Listener = Callable[[Fact], None]
OnEnd = Callable[["Agent"], None]


@dataclass(slots=True)
class _PendingRequest:
    """A request that waits for its response. If it opens a session, `listener` receives the facts for that session."""

    answer: asyncio.Future[Fact]
    listener: Listener | None


class Agent:
    """A running agent process."""

    def __init__(
        self,
        spec: AgentSpec,
        process: Process,
        settings: AcpBackendSettings,
        tasks: Tasks,
        on_end: OnEnd,
        folder: str,
        host: AgentHost,
    ) -> None:
        self.spec = spec
        # File access and terminals are offered only inside the workspace, to which the rules apply.
        is_inside = f"{folder}/".startswith(f"{host.cwd.rstrip('/')}/")
        self.machine = ClientSide(host.offer if is_inside else ClientOffer())
        self.about = facts.Initialized(request=0, version=0)
        self.is_over = False
        """Whether the process has ended or is about to end."""
        self.is_retiring = False
        """Whether the process will be ended after its current turns. No new turns are started in it."""
        self.uses = 0
        """Number of turns that use this process."""
        self._process = process
        self._settings = settings
        self._tasks = tasks
        self._on_end = on_end
        self._pending: dict[int, _PendingRequest] = {}
        self._listeners: dict[str, Listener] = {}
        self._request_listeners: dict[int, Listener] = {}
        self._stray = ""
        self._to_send: list[bytes] = []
        self._sender: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._why = ""
        self._pump = tasks.start(self._read(), f"reading from {spec.id}")

    @classmethod
    async def start(
        cls,
        spec: AgentSpec,
        command: Sequence[str],
        settings: AcpBackendSettings,
        tasks: Tasks,
        on_end: OnEnd = lambda _: None,
        folder: str = "",
        *,
        host: AgentHost | None = None,
    ) -> "Agent":
        """Start an agent process and initialize the connection. Raise GatewayError if that fails.

        `folder` is the agent's working folder. If it is empty, the configured one is used. `host` holds the gateway's
        services for the agent, by default those of the default workspace. `on_end` is called with the agent when the
        process ends.
        """
        folder = folder or spec.cwd or settings.cwd
        try:
            process = await Process.start(command, env=environment(settings, spec), cwd=folder)
        except ProcessError as error:
            raise GatewayError("upstream", f"{spec.title} did not start: {error.message}.", code=ENDED) from error
        agent = cls(spec, process, settings, tasks, on_end, folder, host or settings.host(""))
        try:
            await agent._initialize()
        except BaseException:
            agent.end("was ended because its start failed")
            raise
        return agent

    @property
    def pid(self) -> int:
        """The id of the process, and of its process group."""
        return self._process.pid

    # ── requests ──

    async def request(
        self, send: Callable[[ClientSide], int], within: float, listener: Listener | None = None
    ) -> Fact | facts.RequestRefused:
        """Send a request and return the agent's response, which may be a refusal.

        `send` queues the request and returns its id. If the request opens a session, `listener` receives the facts
        for that session. Raise GatewayError if the agent does not respond within `within` seconds or its process ends.
        """
        self.check()
        request = send(self.machine)
        pending = _PendingRequest(asyncio.get_running_loop().create_future(), listener)
        self._pending[request] = pending
        self.push()
        try:
            async with asyncio.timeout(within):
                answer = await pending.answer
        except TimeoutError:
            self._give_up(request)
            raise self._silent(within) from None
        except asyncio.CancelledError:
            self._give_up(request)
            raise
        finally:
            self._pending.pop(request, None)
        if self.is_over and isinstance(answer, facts.RequestRefused):
            raise self.ended()
        return answer

    def push(self) -> None:
        """Send the messages that are queued in `machine` to the agent, in the background."""
        data = self.machine.outbox()
        if not data or self.is_over:
            return
        self._to_send.append(data)
        if self._sender is None:
            self._sender = self._tasks.start(self._send(), f"sending to {self.spec.id}")

    def check(self) -> None:
        """Raise GatewayError if the process has ended."""
        if self.is_over:
            raise self.ended()

    def listen(self, session: str, listener: Listener) -> None:
        """Deliver the facts for a session to `listener`."""
        self._listeners[session] = listener

    def forget(self, session: str) -> None:
        """Stop delivering the facts for a session, and drop its state."""
        self._listeners.pop(session, None)
        if not self.is_over:
            self.machine.forget_session(session)
            self.push()

    # ── errors ──

    def ended(self) -> GatewayError:
        """Return an error that describes how the process ended."""
        return GatewayError("upstream", self._with_output(self._why or "has ended"), code=ENDED)

    def wants_login(self) -> GatewayError:
        """Return an error that tells the user how to log in."""
        line = self._login_line()
        does = (
            f"Run `{line}` in a terminal, then try again." if line else "Log in with its own program, then try again."
        )
        return GatewayError("unauthorized", f"{self.spec.title} requires a login. {does}", code=NEEDS_LOGIN)

    def refused(self, refusal: facts.RequestRefused) -> GatewayError:
        """Convert the agent's refusal of a request into an error."""
        if refusal.needs_login:
            return self.wants_login()
        detail = refusal.data.strip()
        if detail in ("null", "{}") or detail in refusal.message:
            detail = ""
        shown = f" ({detail[:LINE_SHOWN]})" if detail else ""
        message = f"{self.spec.title} refused {refusal.method}: {refusal.message}{shown}"
        return GatewayError("upstream", message, code=f"agent_error_{refusal.code}")

    def _silent(self, within: float) -> GatewayError:
        what = f"has not answered for {within:g} seconds"
        return GatewayError("timeout", self._with_output(what), code=SILENT)

    def _with_output(self, what: str) -> str:
        lines = [line[:LINE_SHOWN] for line in self._process.stderr.splitlines() if line.strip()][-STDERR_SHOWN:]
        text = f"{self.spec.title} {what}."
        if lines:
            text += " Last lines of its standard error:\n" + "\n".join(lines)
        elif self._stray:
            text += f" It wrote something that is not a message: {self._stray}"
        return text

    def _login_line(self) -> str:
        for login in self.about.logins:
            command = login_command(self.spec.command, login)
            if not command and login.arguments and not self.spec.login:
                command = (*self.spec.command, *login.arguments)
            if command:
                return " ".join([*(f"{name}={value}" for name, value in login.env), *command])
        return self.spec.login

    # ── end ──

    def retire(self) -> None:
        """Start no new turns with this agent, because it ignored a cancellation. End it as soon as no turn uses it."""
        self.is_retiring = True
        if self.uses == 0:
            self.end("was ended because it ignored a cancellation")

    def end(self, why: str) -> asyncio.Task[None]:
        """End the process and its group in the background, and return the task that does so.

        Waiting requests fail with the reason `why`.
        """
        if self._ending is None:
            self._why = self._why or why
            self.is_over = True
            self._ending = self._tasks.start(self._close(), f"ending {self.spec.id}")
        return self._ending

    async def _close(self) -> None:
        await self._process.aclose(self._settings.patience)
        await asyncio.wait([self._pump], timeout=self._settings.patience.kill)

    # ── reading and writing ──

    async def _initialize(self) -> None:
        def send(machine: ClientSide) -> int:
            return machine.initialize(NAME, self._settings.version, "Tieline")

        answer = await self.request(send, self._settings.start_within)
        if isinstance(answer, facts.RequestRefused):
            raise self.refused(answer)
        if isinstance(answer, facts.Initialized):
            self.about = answer

    async def _read(self) -> None:
        machine, process = self.machine, self._process
        try:
            while data := await process.chunk():
                for fact in machine.feed(data):
                    self._deliver(fact)
                self.push()
        except Exception:
            log.exception("could not process the output of %s", self.spec.id)
            self._why = "was ended because its output could not be processed"
        self.is_over = True
        if not self._why:
            await self._learn_why()
        for fact in machine.close(self._why):
            self._deliver(fact)
        self._on_end(self)
        self.end(self._why)

    async def _learn_why(self) -> None:
        """After the agent has closed its output, wait briefly for its exit status, and record why it ended."""
        ended = self._tasks.start(self._process.wait(), f"the end of {self.spec.id}")
        await asyncio.wait([ended], timeout=LINGER)
        ended.cancel()
        self._why = self._why or (str(self._process.exit) if self._process.exit is not None else "closed its output")

    async def _send(self) -> None:
        try:
            while self._to_send:
                data = b"".join(self._to_send)
                self._to_send.clear()
                await self._process.send(data)
        except ProcessError as error:
            # If the process has ended, `_read` finds out why.
            if error.reason != "ended":
                self.end(f"was ended: {error.message}")
        finally:
            self._sender = None

    def _give_up(self, request: int) -> None:
        if not self.is_over:
            self.machine.give_up(request)
            self.push()

    def _deliver(self, fact: Fact) -> None:
        """Pass a fact to the request or the session that it concerns."""
        request = self._pending.get(getattr(fact, "request", 0))
        if request is not None:
            if isinstance(fact, facts.SessionOpened) and request.listener is not None:
                self._listeners[fact.session] = request.listener
            if not request.answer.done():
                request.answer.set_result(fact)
            return
        if isinstance(fact, facts.Withdrawn):
            listener = self._request_listeners.pop(fact.number, None)
        else:
            listener = self._listeners.get(getattr(fact, "session", ""))
        if listener is not None:
            if isinstance(fact, facts.AgentRequest):
                self._remember(fact.number, listener)
            self._notify(listener, fact)
        elif isinstance(fact, facts.AgentRequest):
            self.machine.refuse(fact.number, "the session is not in use")
        else:
            self._unclaimed(fact)

    def _notify(self, listener: Listener, fact: Fact) -> None:
        """Call a listener. Catch its errors, so that they do not affect other sessions."""
        try:
            listener(fact)
        except Exception:
            log.exception("a session of %s failed to handle %s", self.spec.id, type(fact).__name__)

    def _remember(self, number: int, listener: Listener) -> None:
        """Remember which listener received a request from the agent, in case the agent withdraws the request."""
        self._request_listeners[number] = listener
        if len(self._request_listeners) > MAX_ANSWERED:
            still_open = self.machine.open_requests
            self._request_listeners = {one: who for one, who in self._request_listeners.items() if one in still_open}

    def _unclaimed(self, fact: Fact) -> None:
        """Handle a fact that has no listener."""
        match fact:
            case facts.Stray():
                self._stray = fact.beginning[:LINE_SHOWN]
                log.debug("ignored output from %s: %s: %s", self.spec.id, fact.reason, fact.beginning)
            case facts.UnknownRequested():
                log.info("could not serve the request %s from %s: %s", fact.method, self.spec.id, fact.reason)
            case facts.QuestionCompleted():
                for listener in list(self._listeners.values()):
                    self._notify(listener, fact)
            case _:
                log.debug("ignored %s from %s: no session is listening", type(fact).__name__, self.spec.id)


def login_command(command: Sequence[str], login: facts.LoginMethod) -> tuple[str, ...]:
    """Return the command for a login method, or () if the agent sends no command or one that cannot work.

    A login method usually contains arguments for the agent's program, to be used in place of those that start it in ACP
    mode. Older agents send a complete command instead. Qoder's command cannot work: it runs an interpreter without a
    script.
    """
    if login.arguments is not None and not _is_interpreter(command[0]):
        return (command[0], *login.arguments)
    given = login.command or ()
    is_broken = len(given) > 1 and _is_interpreter(given[0]) and not re.search(r"[./\\]", given[1])
    return () if is_broken else given


def _is_interpreter(program: str) -> bool:
    return _INTERPRETER.fullmatch(program.replace("\\", "/").rpartition("/")[2]) is not None


def environment(settings: AcpBackendSettings, spec: AgentSpec) -> dict[str, str]:
    """Return the environment of an agent's process.

    Loopback addresses bypass any proxy, because the MCP server for the clients' tools listens on such an address.
    """
    env = {**settings.env, **spec.env}
    if any(name.lower() in ("http_proxy", "all_proxy") for name in env):
        for name in ("NO_PROXY", "no_proxy"):
            env[name] = ",".join(one for one in (env.get(name, ""), "127.0.0.1", "localhost") if one)
    return env
