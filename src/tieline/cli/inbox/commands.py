"""What each subcommand of `tieline inbox` does."""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Mapping

from tieline.app.build.upstreams import address, client_keys
from tieline.app.config import Config, ConfigError
from tieline.cli.inbox import answers, text
from tieline.cli.inbox.remote import Remote
from tieline.cli.inbox.watch import Clock, Say, Watch, follow
from tieline.model.errors import BadRequest
from tieline.model.inbox import Answer, InboxItem, Question
from tieline.net.client.http import HttpClient, Proxies
from tieline.tasks import Tasks

Options = argparse.Namespace


async def run(options: Options, config: Config, env: Mapping[str, str], say: Say, clock: Clock) -> None:
    """Do what the options say; raises GatewayError for what a person has to know."""
    client = HttpClient(proxies=Proxies.from_env(env))
    try:
        remote = _remote(client, options.url or _url(config), next(iter(client_keys(config, env)), None))
        match options.what:
            case "list":
                await _list(remote, options.id, say, clock)
            case "watch":
                await _watch(remote, say, clock)
            case "rules":
                say(text.allowed(await remote.rules()))
            case "revoke":
                await _revoke(remote, options.id, say)
            case _:
                await _decide(remote, options, say)
    finally:
        await client.aclose()


def _url(config: Config) -> str:
    if not config.server.port:
        raise ConfigError("`server.port` is 0, so the gateway is anywhere: say --url, as it was printed at the start")
    return address(config)


def _remote(client: HttpClient, url: str, key: str | None) -> Remote:
    try:
        return Remote(client, url, key)
    except ValueError as error:
        raise ConfigError(f"--url: {error}") from error


async def _revoke(remote: Remote, given: str, say: Say) -> None:
    rules = (await remote.rules()).rules
    fitting = [rule for rule in rules if rule.id.startswith(given)]
    if len(fitting) != 1:
        raise BadRequest(f"There is no one rule `{given}`; `tieline inbox rules` lists them.")
    await remote.revoke(fitting[0].id)
    say(f"No longer allowed without asking: {text.line(fitting[0].text)}")


async def _list(remote: Remote, given: str | None, say: Say, clock: Clock) -> None:
    items = await remote.items()
    say(text.listed(items, clock()) if given is None else text.described(answers.find(items, given), clock()))


async def _decide(remote: Remote, options: Options, say: Say) -> None:
    item = answers.find(await remote.items(), options.id)
    await remote.decide(item.id, _answer(item.content, options))
    say(f"{text.headline(item)}: answered.")


def _answer(ask: InboxItem, options: Options) -> Answer:
    match options.what:
        case "allow" | "approve":
            return answers.yes(ask)
        case "always":
            return answers.always(ask)
        case "answer":
            return answers.fill(ask, options.words)
        case "decline" if not isinstance(ask, Question):
            raise BadRequest("Only a question can be declined; `tieline inbox deny ID` says no to anything.")
        case _:
            return answers.no(ask, " ".join(options.words))


async def _watch(remote: Remote, say: Say, clock: Clock) -> None:
    takes_keys = sys.stdin.isatty() and sys.stdout.isatty()
    watch = Watch(remote.decide, say, clock, takes_keys=takes_keys)
    tasks = Tasks()
    loop = asyncio.get_running_loop()
    if takes_keys:
        typing = sys.stdin.fileno()
        loop.add_reader(typing, lambda: _typed(typing, watch, tasks, lambda: loop.remove_reader(typing)))
    try:
        await follow(remote.watch, watch, say)
    finally:
        if takes_keys:
            loop.remove_reader(sys.stdin.fileno())
        await tasks.aclose()


def _typed(stream: int, watch: Watch, tasks: Tasks, stop: Callable[[], object]) -> None:
    """A line is there: terminals give whole ones."""
    data = os.read(stream, 65536)
    if not data:
        stop()
        return
    tasks.start(watch.take(data.decode("utf-8", "replace")), "an answer")
