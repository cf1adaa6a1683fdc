"""The arguments of `tieline chat`."""

import argparse

EPILOG = """\
Exit status with --print: 0 answered, 1 the model or the gateway failed, 2 wrong
usage, 3 something was denied because no one could be asked, 130 interrupted.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `tieline chat` to its parser."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("prompt", nargs="*", metavar="PROMPT", help="first message (with -p also from standard input)")
    parser.add_argument("-m", "--model", help="model to use (`tieline models` lists them)")
    parser.add_argument("--mode", help="mode of the model, such as plan")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-c", "--continue", dest="latest", action="store_true", help="continue the latest conversation")
    which.add_argument("--session", metavar="ID", help="continue this conversation")
    parser.add_argument(
        "-p", "--print", dest="prints", action="store_true", help="print only the answer, ask nothing, then exit"
    )
    parser.add_argument("--json", action="store_true", help="with -p: print text, calls, usage and ending as JSON")
    parser.add_argument(
        "--tools", action="store_true", help="let the model use files and commands in this folder; every change asks"
    )
    parser.add_argument("--url", help="address of the gateway (default: from the configuration, or a temporary one)")
