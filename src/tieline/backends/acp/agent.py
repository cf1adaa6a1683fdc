"""One agent process: what is asked of it, what it tells its sessions, and its end.

The pump reads for as long as the process lives; facts go, in their order, to whoever asked or to the session they are
about. Whatever happens, whoever waits hears of it: a process that ends refuses what was asked of it, an agent that is
silent for too long is given up.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tieline.backends.acp.catalogue import NAME, AgentSpec
from tieline.backends.acp.settings import Terms
from tieline.model.errors import GatewayError
from tieline.net.process.program import Process, ProcessError
from tieline.tasks import Tasks
from tieline.wire.acp import facts
from tieline.wire.acp.client_side import ClientSide, Offer
from tieline.wire.acp.facts import Fact

log = logging.getLogger("tieline.acp")

ENDED = "agent_ended"
SILENT = "agent_silent"
NEEDS_LOGIN = "agent_needs_login"

STDERR_SHOWN = 12
"""How many of the last lines an agent wrote to its standard error are shown when it fails."""
LINE_SHOWN = 300
LINGER = 1.0
"""Seconds that an agent whose output has ended has to end itself."""

_INTERPRETER = re.compile(r"(node|nodejs|npx|bun|bunx|deno|python[\d.]*|uv|uvx|sh|bash|env)(\.exe)?")

Listener = Callable[[Fact], None]
OnEnd = Callable[["Agent"], None]


@dataclass(slots=True)
class _Asked:
    """A request of ours that waits; `listener` hears of the session that it opens."""

    answer: asyncio.Future[Fact]
    listener: Listener | None


class Agent:
    """A running agent."""

    def __init__(
        self, spec: AgentSpec, process: Process, terms: Terms, tasks: Tasks, on_end: OnEnd, folder: str
    ) -> None:
        self.spec = spec
        # Files and terminals of ours are those of the workspace that the rules are about.
        is_inside = f"{folder}/".startswith(f"{terms.cwd.rstrip('/')}/")
        self.machine = ClientSide(terms.offer if is_inside else Offer())
        self.about = facts.Initialized(request=0, version=0)
        self.is_over = False
        """Nothing can be asked of it any more."""
        self.is_retiring = False
        """It gets no new turns, and is ended after those under way."""
        self.uses = 0
        """How many turns are under way or wait for somebody."""
        self._process = process
        self._terms = terms
        self._tasks = tasks
        self._on_end = on_end
        self._asked: dict[int, _Asked] = {}
        self._listeners: dict[str, Listener] = {}
        self._asks: dict[int, Listener] = {}
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
        terms: Terms,
        tasks: Tasks,
        on_end: OnEnd = lambda _: None,
        folder: str = "",
    ) -> "Agent":
        """Start an agent in a folder, its own if none is given, and let it introduce itself; raises GatewayError."""
        folder = folder or spec.cwd or terms.cwd
        try:
            process = await Process.start(command, env=environment(terms, spec), cwd=folder)
        except ProcessError as error:
            raise GatewayError("upstream", f"{spec.title} did not start: {error.message}.", code=ENDED) from error
        agent = cls(spec, process, terms, tasks, on_end, folder)
        try:
            await agent._introduce()
        except BaseException:
            agent.end("it was given up while it started")
            raise
        return agent

    @property
    def pid(self) -> int:
        """Of the process and of its group."""
        return self._process.pid

    # ── asking ──

    async def ask(
        self, send: Callable[[ClientSide], int], within: float, listener: Listener | None = None
    ) -> Fact | facts.Refused:
        """Ask something and wait for the answer, which may be a refusal; raises GatewayError if none comes."""
        self.check()
        request = send(self.machine)
        asked = _Asked(asyncio.get_running_loop().create_future(), listener)
        self._asked[request] = asked
        self.push()
        try:
            async with asyncio.timeout(within):
                answer = await asked.answer
        except TimeoutError:
            self._give_up(request)
            raise self._silent(within) from None
        except asyncio.CancelledError:
            self._give_up(request)
            raise
        finally:
            self._asked.pop(request, None)
        if self.is_over and isinstance(answer, facts.Refused):
            raise self.ended()
        return answer

    def push(self) -> None:
        """Send what the machine has to say, in its order."""
        data = self.machine.outbox()
        if not data or self.is_over:
            return
        self._to_send.append(data)
        if self._sender is None:
            self._sender = self._tasks.start(self._send(), f"sending to {self.spec.id}")

    def check(self) -> None:
        """Raise GatewayError if nothing can be asked any more."""
        if self.is_over:
            raise self.ended()

    def listen(self, session: str, listener: Listener) -> None:
        """From now on this session's facts go there."""
        self._listeners[session] = listener

    def forget(self, session: str) -> None:
        """Nobody cares for this session any more."""
        self._listeners.pop(session, None)
        if not self.is_over:
            self.machine.forget_session(session)
            self.push()

    # ── what is said when it fails ──

    def ended(self) -> GatewayError:
        """The error for whoever needed it."""
        return GatewayError("upstream", self._last_words(self._why or "has ended"), code=ENDED)

    def wants_login(self) -> GatewayError:
        """The error that says what to run to log in."""
        line = self._login_line()
        does = (
            f"Run `{line}` in a terminal, then ask again." if line else "Log in with its own program, then ask again."
        )
        return GatewayError("unauthorized", f"{self.spec.title} wants a login first. {does}", code=NEEDS_LOGIN)

    def refused(self, refusal: facts.Refused) -> GatewayError:
        """A refusal as an error."""
        if refusal.needs_login:
            return self.wants_login()
        detail = refusal.data.strip()
        if detail in ("null", "{}") or detail in refusal.message:
            detail = ""
        shown = f" ({detail[:LINE_SHOWN]})" if detail else ""
        message = f"{self.spec.title} refused {refusal.method}: {refusal.message}{shown}"
        return GatewayError("upstream", message, code=f"agent_error_{refusal.code}")

    def _silent(self, within: float) -> GatewayError:
        said = f"has not answered for {within:g} seconds"
        return GatewayError("timeout", self._last_words(said), code=SILENT)

    def _last_words(self, said: str) -> str:
        lines = [line[:LINE_SHOWN] for line in self._process.stderr.splitlines() if line.strip()][-STDERR_SHOWN:]
        text = f"{self.spec.title} {said}."
        if lines:
            text += " The last it wrote to its standard error:\n" + "\n".join(lines)
        elif self._stray:
            text += f" It wrote something that is no message: {self._stray}"
        return text

    def _login_line(self) -> str:
        for login in self.about.logins:
            words = login_command(self.spec.command, login)
            if not words and login.arguments and not self.spec.login:
                words = (*self.spec.command, *login.arguments)
            if words:
                return " ".join([*(f"{name}={value}" for name, value in login.env), *words])
        return self.spec.login

    # ── its end ──

    def retire(self) -> None:
        """It does not do what it is told: it gets no new turns, and is ended once nobody else needs it."""
        self.is_retiring = True
        if self.uses == 0:
            self.end("was ended because it did not do what it was told")

    def end(self, why: str) -> asyncio.Task[None]:
        """End the process and all of its group; who waits for an answer is told why."""
        if self._ending is None:
            self._why = self._why or why
            self.is_over = True
            self._ending = self._tasks.start(self._close(), f"ending {self.spec.id}")
        return self._ending

    async def _close(self) -> None:
        await self._process.aclose(self._terms.patience)
        await asyncio.wait([self._pump], timeout=self._terms.patience.kill)

    # ── the pump ──

    async def _introduce(self) -> None:
        def send(machine: ClientSide) -> int:
            return machine.initialize(NAME, self._terms.version, "Tieline")

        answer = await self.ask(send, self._terms.start_within)
        if isinstance(answer, facts.Refused):
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
            log.exception("what %s wrote could not be read", self.spec.id)
            self._why = "was ended because what it wrote could not be read"
        self.is_over = True
        if not self._why:
            await self._learn_why()
        for fact in machine.close(self._why):
            self._deliver(fact)
        self._on_end(self)
        self.end(self._why)

    async def _learn_why(self) -> None:
        """Its output has ended; how it ended, and its last words, come a moment later."""
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
            # If it has ended the pump knows better why.
            if error.reason != "ended":
                self.end(f"was ended: {error.message}")
        finally:
            self._sender = None

    def _give_up(self, request: int) -> None:
        if not self.is_over:
            self.machine.give_up(request)
            self.push()

    def _deliver(self, fact: Fact) -> None:
        """A fact to whoever it is for."""
        request = getattr(fact, "request", None)
        if request is not None and (asked := self._asked.get(request)) is not None:
            if isinstance(fact, facts.SessionOpened) and asked.listener is not None:
                self._listeners[fact.session] = asked.listener
            if not asked.answer.done():
                asked.answer.set_result(fact)
            return
        ask = getattr(fact, "ask", None)
        if isinstance(fact, facts.Withdrawn):
            listener = self._asks.pop(fact.ask, None)
        else:
            listener = self._listeners.get(getattr(fact, "session", ""))
            if ask is not None:
                self._remember(ask, listener)
        if listener is not None:
            self._hear(listener, fact)
        elif ask is not None and not isinstance(fact, facts.Withdrawn):
            self.machine.refuse(ask, "nobody is there for this session")
        else:
            self._overhear(fact)

    def _hear(self, listener: Listener, fact: Fact) -> None:
        """What one session cannot take must not cost the others anything."""
        try:
            listener(fact)
        except Exception:
            log.exception("a session of %s could not take %s", self.spec.id, type(fact).__name__)

    def _remember(self, ask: int, listener: Listener | None) -> None:
        """Who has to hear if this is withdrawn; what has been answered is forgotten on the way."""
        if listener is not None:
            self._asks[ask] = listener
        if len(self._asks) > 64:
            still_open = self.machine.open_asks
            self._asks = {one: who for one, who in self._asks.items() if one in still_open}

    def _overhear(self, fact: Fact) -> None:
        """What is for nobody in particular."""
        match fact:
            case facts.Stray():
                self._stray = fact.beginning[:LINE_SHOWN]
                log.debug("%s: %s: %s", self.spec.id, fact.reason, fact.beginning)
            case facts.UnknownAsked():
                log.info("%s asked for %s: %s", self.spec.id, fact.method, fact.reason)
            case facts.QuestionCompleted():
                for listener in list(self._listeners.values()):
                    self._hear(listener, fact)
            case _:
                log.debug("%s: %s", self.spec.id, type(fact).__name__)


def login_command(command: Sequence[str], login: facts.Login) -> tuple[str, ...]:
    """What to run to log in this way; nothing if the agent does not tell, or tells something that cannot work.

    The arguments of a login are for the agent's program, in place of those that make it speak this protocol. Older
    agents tell a whole command; Qoder's is its interpreter without a script.
    """
    if login.arguments is not None and not _is_interpreter(command[0]):
        return (command[0], *login.arguments)
    words = login.command or ()
    is_broken = len(words) > 1 and _is_interpreter(words[0]) and not re.search(r"[./\\]", words[1])
    return () if is_broken else words


def _is_interpreter(program: str) -> bool:
    return _INTERPRETER.fullmatch(program.replace("\\", "/").rpartition("/")[2]) is not None


def environment(terms: Terms, spec: AgentSpec) -> dict[str, str]:
    """What an agent's process gets. The client's tools are on loopback: no proxy may stand in between."""
    env = {**terms.env, **spec.env}
    if any(name.lower() in ("http_proxy", "all_proxy") for name in env):
        for name in ("NO_PROXY", "no_proxy"):
            env[name] = ",".join(one for one in (env.get(name, ""), "127.0.0.1", "localhost") if one)
    return env
