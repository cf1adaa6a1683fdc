"""Implements the subcommands of `tieline inbox`."""

import argparse
import sys
from collections.abc import Mapping

from tieline.app.build.keys import client_keys
from tieline.app.config import Config, ConfigError, address
from tieline.cli.gateway_client import GatewayClient
from tieline.cli.inbox import answers, formatting
from tieline.cli.inbox.remote import RemoteInbox
from tieline.cli.inbox.watch import Clock, InboxWatch, Say, follow
from tieline.cli.terminal import watch_lines
from tieline.model.errors import BadRequest
from tieline.model.inbox import Answer, InboxItem, Question
from tieline.net.client.http import HttpClient, Proxies
from tieline.tasks import Tasks

Options = argparse.Namespace


async def run(options: Options, config: Config, env: Mapping[str, str], say: Say, clock: Clock) -> None:
    """Run a subcommand of `tieline inbox`.

    Raise GatewayError with a message for the user if it fails, or ConfigError if the configuration cannot be used.
    """
    client = HttpClient(proxies=Proxies.from_env(env))
    try:
        key = next(iter(client_keys(config, env)), None)
        remote = RemoteInbox(GatewayClient(client, options.url or _url(config), key, name="inbox"))
        match options.what:
            case "list":
                await _list(remote, options.id, say, clock)
            case "watch":
                await _watch(remote, say, clock)
            case "rules":
                say(formatting.format_rules(await remote.rules()))
            case "revoke":
                await _revoke(remote, options.id, say)
            case _:
                await _decide(remote, options, say)
    finally:
        await client.aclose()


def _url(config: Config) -> str:
    if not config.server.port:
        raise ConfigError("`server.port` is 0, so the port is unknown: pass the address that was printed with --url")
    return address(config)


async def _revoke(remote: RemoteInbox, given: str, say: Say) -> None:
    rules = (await remote.rules()).rules
    found = [rule for rule in rules if rule.id.startswith(given)]
    if len(found) != 1:
        problem = "matches several saved permissions" if found else "is not the id of a saved permission"
        raise BadRequest(f"`{given}` {problem}; `tieline inbox rules` lists them.")
    await remote.revoke(found[0].id)
    say(f"No longer allowed without asking: {formatting.short_line(found[0].text)}")


async def _list(remote: RemoteInbox, given: str | None, say: Say, clock: Clock) -> None:
    items = await remote.items()
    say(
        formatting.format_items(items, clock())
        if given is None
        else formatting.format_item(answers.find(items, given), clock())
    )


async def _decide(remote: RemoteInbox, options: Options, say: Say) -> None:
    item = answers.find(await remote.items(), options.id)
    await remote.decide(item.id, _answer(item.content, options))
    say(f"{formatting.headline(item)}: answered.")


def _answer(content: InboxItem, options: Options) -> Answer:
    match options.what:
        case "allow" | "approve":
            return answers.allow(content)
        case "always":
            return answers.allow_always(content)
        case "answer":
            return answers.fill_in(content, options.words)
        case "decline" if not isinstance(content, Question):
            raise BadRequest("Only a question can be declined. To refuse anything else, use `tieline inbox deny ID`.")
        case _:
            return answers.refuse(content, " ".join(options.words))


async def _watch(remote: RemoteInbox, say: Say, clock: Clock) -> None:
    takes_keys = sys.stdin.isatty() and sys.stdout.isatty()
    watch = InboxWatch(remote.decide, say, clock, takes_keys=takes_keys)
    tasks = Tasks()

    def take(line: str) -> None:
        tasks.start(watch.take(line), "inbox-answer")

    stop = watch_lines(sys.stdin, take) if takes_keys else None
    try:
        await follow(remote.watch, watch, say)
    finally:
        if stop is not None:
            stop()
        await tasks.aclose()
