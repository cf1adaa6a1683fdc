"""The command `tieline tunnel`: its options and its output."""

import argparse
import secrets
import time
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from tieline.app.build.keys import client_keys, key_from_env
from tieline.app.config import Config, ConfigError
from tieline.app.keys.rules import model_access
from tieline.app.logs import one_line
from tieline.app.tunnel import OpenTunnel, TunnelError, TunnelOptions, find_program, run_tunnel
from tieline.cli.tunnel_json import JsonLog
from tieline.core.usage.limits import KeyLimits
from tieline.core.watch.bus import BusEvent, LegChanged
from tieline.core.watch.record import LegRecord
from tieline.core.watch.secrets import HIDDEN
from tieline.frontends.http import Exchange
from tieline.frontends.keys import NamedKey
from tieline.model.errors import GatewayError
from tieline.model.events import Failed

KEY_BYTES = 32
MIN_KEY = 20
"""Minimum length of a key in characters. It is high, because anyone on the internet can try to guess the key."""
REQUESTS_PER_MINUTE = 60
MAX_NAMES = 30
"""Maximum number of models that are listed when the tunnel opens."""
MAX_SHOWN = 60
"""Maximum number of characters of a model name or path that are shown."""
MAX_ADDRESS = 45
"""Maximum number of characters of a client's address that are shown: the length of the longest IPv6 address."""

OPENED = """\
Cursor can reach this gateway until you stop this command (Ctrl-C).

In Cursor, under Settings → Models → API Keys:

  Override OpenAI Base URL   {url}/cursor/v1
  OpenAI API Key             {key}

Or, instead of these, Azure OpenAI:

  Base URL                   {url}
  Deployment Name            one of the models below
  API Key                    the same key

Add these models by name:

{models}

Anyone with this address and key can use these models at your expense: keep the key secret. {limits}
"""
UNANSWERED = """\
No one can answer requests for permission here: they are denied unless a rule under [tools] allows them.
"""


def run(
    options: argparse.Namespace,
    config: Config,
    env: Mapping[str, str],
    say: Callable[[str], None],
    warn: Callable[[str], None],
) -> int:
    """Run a tunnel until the user stops it, and return the exit status. `say` prints a message, `warn` an error."""
    program, path = find_program(options.program, env)
    key, shown_key = _key(options, config, env)
    if options.tools:
        config = replace(config, tools=replace(config.tools, enabled=True))
    events = JsonLog(say, time.time, key.value) if options.json else None
    log = UsageLog(say, time.time, key.value)

    def announce(opened: OpenTunnel) -> None:
        if events is not None:
            events.opened(opened, shown_key)
            return
        say(_opened(opened, key, shown_key))
        if options.tools or options.agents:
            say(UNANSWERED)

    # Programs that the gateway starts must not see the key.
    env = {name: value for name, value in env.items() if name != options.key_env}
    if events is None:
        say(f"Starting {program.name} …")
    try:
        run_tunnel(
            config,
            env,
            TunnelOptions(program, path, key, options.port),
            announce=announce,
            observe=(events or log).observe,
            watch=(events or log).watch,
        )
    except TunnelError as error:
        if events is not None:
            events.closed(error.message)
        warn("\n  ".join((error.message, *error.output.splitlines())))
        return 1
    if events is not None:
        events.closed("stopped")
    else:
        say(log.summary())
    return 0


def _key(options: argparse.Namespace, config: Config, env: Mapping[str, str]) -> tuple[NamedKey, str]:
    """Return the key for clients of the tunnel, and text that tells the user which key it is."""
    if options.key_env is None:
        value = shown = f"sk-tieline-{secrets.token_urlsafe(KEY_BYTES)}"
    else:
        given = key_from_env(env, options.key_env)
        if given is None:
            raise ConfigError(f"--key-env {options.key_env}: this variable is not set")
        if len(given) < MIN_KEY:
            raise ConfigError(f"--key-env {options.key_env}: this key is too short; use at least {MIN_KEY} characters")
        if given in client_keys(config, env):
            raise ConfigError(f"--key-env {options.key_env}: this is the gateway's own key; use another one")
        value, shown = given, f"the value of {options.key_env}"
    key = NamedKey(
        "tunnel",
        value,
        tools=options.tools,
        access=model_access(options.models, agents=options.agents),
        limits=KeyLimits(requests_per_minute=REQUESTS_PER_MINUTE),
    )
    return key, shown


def _opened(opened: OpenTunnel, key: NamedKey, shown_key: str) -> str:
    """Return the text that tells the user what to enter in Cursor's settings."""
    names = [f"  {one_line(name)}" for name in opened.models[:MAX_NAMES]]
    if len(opened.models) > MAX_NAMES:
        names.append(f"  … and {len(opened.models) - MAX_NAMES} more; `tieline models` lists all")
    rate, access = key.limits.requests_per_minute, key.access or "all models"
    limits = f"With it, clients may send {rate} requests per minute and use {access}."
    return OPENED.format(url=opened.url, key=shown_key, models="\n".join(names) or "  (none)", limits=limits)


class UsageLog:
    """Counts the requests through the tunnel and prints a line for each, with `key` hidden. `clock` returns Unix time.

    Anyone can send requests that are refused, so at most one of them is printed per second.
    """

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float], key: str) -> None:
        self._say = say
        self._key = key
        self._clock = clock
        self._refused_at = 0.0
        self._requests = 0
        self._failed = 0
        self._refused = 0
        self._tokens_in = 0
        self._tokens_out = 0

    def watch(self, event: BusEvent) -> None:
        """If the event is the end of a leg, count the leg and print it. Ignore all other events."""
        if isinstance(event, LegChanged) and event.record.duration is not None:
            self._leg_ended(event.record)

    def observe(self, exchange: Exchange, error: GatewayError | None) -> None:
        """Count and print a refused request, or print a GET request, such as one for the list of models.

        Requests for unknown paths are counted but not printed.
        """
        if error is not None:
            self._refused += 1
            now = self._clock()
            if error.kind != "not_found" and now - self._refused_at >= 1:
                self._refused_at = now
                self._line(f"{exchange.method} {exchange.path}", f"{error.status}{_sender(exchange)}")
        elif exchange.method == "GET" and exchange.path != "/healthz":
            self._line(f"GET {exchange.path}", "200")

    def summary(self) -> str:
        """Return a line with the numbers of requests and tokens that were counted."""
        failed = f" ({self._failed} failed)" if self._failed else ""
        refused = f", {self._refused} refused" if self._refused else ""
        requests = "1 request" if self._requests == 1 else f"{self._requests} requests"
        return f"{requests}{failed}{refused}, {self._tokens_in} tokens in, {self._tokens_out} out."

    def _leg_ended(self, record: LegRecord) -> None:
        self._requests += 1
        status: str = record.status
        if isinstance(record.ending, Failed):
            self._failed += 1
            status = f"{record.ending.status} {record.ending.kind}"
        usage = record.usage
        tokens = ""
        if usage is not None:
            self._tokens_in += usage.prompt
            self._tokens_out += usage.output
            tokens = f"{usage.prompt} tokens in, {usage.output} out"
        self._line(record.request.model, f"{status:8}  {tokens}")

    def _line(self, subject: str, outcome: str) -> None:
        at = time.strftime("%H:%M:%S", time.localtime(self._clock()))
        shown = one_line(subject.replace(self._key, HIDDEN)[:MAX_SHOWN])
        self._say(f"{at}  {self._requests:4}  {shown:30}  {outcome}".rstrip())


def _sender(exchange: Exchange) -> str:
    """Return the address of the client that sent a request, as reported by the tunnel program; empty if unknown."""
    named = exchange.header(b"cf-connecting-ip") or exchange.header(b"x-forwarded-for")
    return f"  from {one_line(named[:MAX_ADDRESS])}" if named else ""
