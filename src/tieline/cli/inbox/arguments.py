"""The subcommands and arguments of `tieline inbox`."""

import argparse

Parser = argparse.ArgumentParser


def add_arguments(parser: Parser) -> None:
    """Add the subcommands of `tieline inbox` to its parser."""
    parser.add_argument("--url", help="address of the gateway (default: from the configuration)")
    parser.set_defaults(what="list", id=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    command = _add(commands, "list", "list the requests that wait for you; with an ID, show all details of one")
    command.add_argument("id", nargs="?", metavar="ID")
    _add(commands, "watch", "show new requests as they arrive; on a terminal, you can answer them directly")
    for name, text in (
        ("allow", "allow an action once"),
        ("always", "allow an action now and in the future"),
        ("approve", "approve a plan"),
    ):
        _add(commands, name, text).add_argument("id", metavar="ID")
    for name, text, word in (
        ("deny", "deny an action; the model receives the reason, if you give one", "REASON"),
        ("reject", "reject a plan; the model receives your feedback", "FEEDBACK"),
        ("decline", "decline to answer a question, optionally with a reason", "REASON"),
    ):
        command = _add(commands, name, text)
        command.add_argument("id", metavar="ID")
        if name == "reject":
            command.add_argument("words", nargs="+", metavar=word)
        else:
            # Without a default, argparse lists a "*" argument as required in its error messages.
            command.add_argument("words", nargs="*", default=[], metavar=word)
    command = _add(commands, "answer", "answer a question, or choose any option of an action or plan (option=ID)")
    command.add_argument("id", metavar="ID")
    command.add_argument("words", nargs="*", default=[], metavar="NAME=VALUE")
    _add(commands, "rules", "list the saved permissions")
    _add(commands, "revoke", "revoke a saved permission").add_argument("id", metavar="RULE")


def _add(commands: "argparse._SubParsersAction[Parser]", name: str, text: str) -> Parser:
    command = commands.add_parser(name, help=text, description=text[:1].upper() + text[1:] + ".")
    command.set_defaults(what=name)
    return command
