"""The subcommands of `tieline inbox`, and what can follow each."""

import argparse

Parser = argparse.ArgumentParser


def add_arguments(parser: Parser) -> None:
    """Everything that can follow `tieline inbox`."""
    parser.add_argument("--url", help="where the gateway is (default: what the configuration says)")
    parser.set_defaults(what="list", id=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    command = _add(commands, "list", "show what waits for you; with an ID all of it")
    command.add_argument("id", nargs="?", metavar="ID")
    _add(commands, "watch", "show each new thing as it comes; on a terminal, answer it right there")
    for name, text in (
        ("allow", "allow it this once"),
        ("always", "allow it now and from now on"),
        ("approve", "approve a plan"),
    ):
        _add(commands, name, text).add_argument("id", metavar="ID")
    for name, text, word in (
        ("deny", "do not allow it; a reason, if you give one, is told to the model", "REASON"),
        ("reject", "reject a plan; the feedback is told to the model", "FEEDBACK"),
        ("decline", "do not answer a question; a reason may follow", "REASON"),
    ):
        command = _add(commands, name, text)
        command.add_argument("id", metavar="ID")
        if name == "reject":
            command.add_argument("words", nargs="+", metavar=word)
        else:
            # Without a default, argparse lists even a "*" argument among those that are required.
            command.add_argument("words", nargs="*", default=[], metavar=word)
    command = _add(commands, "answer", "answer a question")
    command.add_argument("id", metavar="ID")
    command.add_argument("words", nargs="*", default=[], metavar="NAME=VALUE")
    _add(commands, "rules", "list what is always allowed")
    _add(commands, "revoke", "allow something no longer").add_argument("id", metavar="RULE")


def _add(commands: "argparse._SubParsersAction[Parser]", name: str, text: str) -> Parser:
    command = commands.add_parser(name, help=text, description=text[:1].upper() + text[1:] + ".")
    command.set_defaults(what=name)
    return command
