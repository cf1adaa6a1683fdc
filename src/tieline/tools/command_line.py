"""Analyses command lines for the permission policy: their words and their risks.

`simple_command` is strict: it returns the words of a command only if a shell would run exactly one program with exactly
these words, and None in every doubtful case (operators, substitutions, redirections, assignments, comments, unfinished
quotes). However, words with `*`, `?`, `[`, `{` or `~` are returned unchanged, although a shell may expand them.
`loose_words` is the opposite: it returns every word that could be part of some command in the text.

`command_risk` describes the worst risk in one sentence for the person who is asked for permission. This is a hint, not
a barrier: it recognises common patterns, and a command can be written to avoid them. A command must never be allowed
just because no risk was found.
"""

import os.path
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tieline.tools.protected import protection_warning

_ASSIGNMENT = re.compile(r"\w+(\[.*\])?\+?=", re.DOTALL)
_QUOTES = re.compile(r"\\\n|[\"'\\]")
_OPERATORS = re.compile(r"[\s;&|<>(){}`$,=]+")
_SPECIAL = frozenset(";&|<>()`$#\n\r")
_ESCAPED_IN_QUOTES = frozenset('"\\$`')
_RESERVED = frozenset(
    re.findall(
        r"\S+", "! { } [[ ]] case coproc do done elif else esac fi for function if in select then time until while"
    )
)


# ── Words ────────────────────────────────────────────────────────────────────────────────────────


def simple_command(line: str) -> list[str] | None:
    """Return the words of a command line if it is one simple command, or None if it is or may be anything else."""
    reader = _WordReader(line)
    words = reader.words()
    if not words or reader.is_unclear or words[0] in _RESERVED or _ASSIGNMENT.match(words[0]):
        return None
    return words


def loose_words(line: str) -> list[str]:
    """Return all words between blanks and operators, in order, ignoring quotes."""
    return [word for word in _OPERATORS.split(_QUOTES.sub("", line)) if word]


class _WordReader:
    """Reads the words of one command line from left to right."""

    def __init__(self, line: str) -> None:
        self.rest = iter(line)
        self.is_unclear = False
        self.found: list[str] = []
        self.word: list[str] | None = None

    def words(self) -> list[str]:
        for character in self.rest:
            if self.is_unclear:
                break
            self.read(character)
        self.finish()
        return self.found

    def read(self, character: str) -> None:
        match character:
            case " " | "\t":
                self.finish()
            case "'":
                self.single_quoted()
            case '"':
                self.double_quoted()
            case "\\":
                self.escaped()
            case _ if character in _SPECIAL or not character.isprintable():
                self.is_unclear = True
            case _:
                self.add(character)

    def add(self, text: str) -> None:
        if self.word is None:
            self.word = []
        self.word.append(text)

    def finish(self) -> None:
        if self.word is not None:
            self.found.append("".join(self.word))
            self.word = None

    def escaped(self) -> None:
        following = next(self.rest, "\n")
        self.is_unclear = self.is_unclear or following == "\n"
        self.add(following)

    def single_quoted(self) -> None:
        self.add("")
        for character in self.rest:
            if character == "'":
                return
            self.add(character)
        self.is_unclear = True

    def double_quoted(self) -> None:
        self.add("")
        for character in self.rest:
            if character == '"':
                return
            if character in "$`":
                break
            if character != "\\":
                self.add(character)
                continue
            following = next(self.rest, "")
            if following in ("", "\n"):
                break
            self.add(following if following in _ESCAPED_IN_QUOTES else f"\\{following}")
        self.is_unclear = True


# ── Risks ────────────────────────────────────────────────────────────────────────────────────────


_SEPARATOR = re.compile(r"(\|\||&&|\|&|>\||[;&|\n`]|\$\(|<\(|\(|\))")
_REDIRECTION = re.compile(
    r"(?:(?<![<>])(?:&>>?|\d?>>?\|?)\s*(?!&\d)|\s--output[=\s])(\"[^\"]*\"|'[^']*'|[^\s;&|<>()]+)"
)
"""Matches an output redirection or the option `--output`, and captures the file name."""
_PREFIX = re.compile(r"\A\s*(?:(?:env(?:\s+-\S+)*|\w+=\S*)\s+)+")
_WRAPPERS = frozenset(
    ("builtin", "command", "env", "exec", "ionice", "nice", "nohup", "setsid", "stdbuf", "time", "timeout", "xargs")
)
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "fish", "csh", "tcsh", "ash"))
_INTERPRETERS = _SHELLS | frozenset(("python", "python3", "perl", "ruby", "node", "php", "deno", "bun", "lua"))
_DOWNLOADS = frozenset(("curl", "wget", "fetch", "aria2c"))
_ADMINISTRATORS = frozenset(("sudo", "doas", "su", "pkexec", "run0"))
_WRITERS = frozenset(("cp", "mv", "install", "tee", "touch", "mkdir", "rmdir", "rm", "ln", "rsync", "truncate", "dd"))
_SYSTEM = frozenset(("shutdown", "reboot", "halt", "poweroff", "crontab", "systemctl", "launchctl", "mount", "umount"))
_DISKS = ("mkfs", "wipefs", "fdisk", "parted", "shred", "blkdiscard")
_HARMLESS_TARGETS = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/fd/", "/tmp/")  # noqa: S108 - compared, not used
_READERS = frozenset(("cat", "diff", "file", "grep", "head", "less", "ls", "rg", "stat", "tail", "wc"))


class _Step(NamedTuple):
    """One program in a command line: the operator before it (`|`, `;`, …), its words and its wrappers (`sudo`, …)."""

    before: str
    words: tuple[str, ...]
    wrappers: tuple[str, ...]

    @property
    def program(self) -> str:
        return self.words[0].rpartition("/")[2] if self.words else ""

    @property
    def rest(self) -> tuple[str, ...]:
        return self.words[1:]

    def has(self, letters: str, *names: str) -> bool:
        """Return whether the program is called with any of these options.

        `letters` are short options, which can be combined (`-rf`); `names` are long options.
        """
        short = (word[1:] for word in self.rest if word.startswith("-") and not word.startswith("--"))
        return any(letter in word for word in short for letter in letters) or any(name in self.rest for name in names)


def command_risk(command: str, *, root: str, folder: str = ".") -> str:
    """Return a sentence about the worst risk of a command, or an empty string if no risk is recognised.

    The command would run in `folder`, a path relative to the workspace's `root`.
    """
    steps = list(_steps(command))
    for check in _CHECKS:
        for number, step in enumerate(steps):
            if reason := check(step, steps[:number]):
                return reason
    targets = [*_redirected(command), *_written(steps)]
    return next(
        (f"It writes to `{target}`, outside the workspace." for target in targets if _is_outside(target, root, folder)),
        "",
    ) or _protected(command, steps, targets)


def _steps(command: str) -> Iterator[_Step]:
    pieces = _SEPARATOR.split(command)
    for number in range(0, len(pieces), 2):
        words = loose_words(_PREFIX.sub("", pieces[number]))
        wrappers: list[str] = []
        while len(words) > 1 and words[0].rpartition("/")[2] in _WRAPPERS | _ADMINISTRATORS:
            wrappers.append(words.pop(0).rpartition("/")[2])
            while len(words) > 1 and (words[0].startswith("-") or words[0].rstrip("smh").isdigit()):
                words.pop(0)
        if words:
            yield _Step(pieces[number - 1] if number else "", tuple(words), tuple(wrappers))


# ── Checks, worst risk first ─────────────────────────────────────────────────────────────────────


def _runs_download(step: _Step, before: Sequence[_Step]) -> str:
    is_download = any(one.program in _DOWNLOADS for one in before) or step.program in _DOWNLOADS
    is_fed = step.before in ("|", "|&") and step.program in _INTERPRETERS and _reads_program(step)
    is_inserted = step.before in ("$(", "`", "<(") and any(
        one.program in _SHELLS or one.program in ("eval", "source", ".") for one in before
    )
    return "It downloads a program and runs it immediately." if is_download and (is_fed or is_inserted) else ""


def _reads_program(step: _Step) -> bool:
    """Return whether an interpreter reads its code from standard input, because its arguments name no code or file."""
    return all(word.startswith("-") for word in step.rest) and not step.has("cem", "--command", "--eval", "--version")


def _is_administrator(step: _Step, _: Sequence[_Step]) -> str:
    found = next((name for name in (*step.wrappers, step.program) if name in _ADMINISTRATORS), "")
    return f"It runs with another user's rights ({found})." if found else ""


def _deletes(step: _Step, _: Sequence[_Step]) -> str:
    if step.program == "rm" and step.has("rR", "--recursive"):
        return "It permanently deletes whole folders (rm -r)."
    if step.program == "find" and "-delete" in step.rest:
        return "It deletes every file it finds (find -delete)."
    if step.program.startswith(_DISKS) or (
        step.program == "dd" and any(word.startswith("/dev/") for word in step.rest)
    ):
        return f"It can permanently erase a disk or a file ({step.program})."
    return ""


def _runs_pipe(step: _Step, _: Sequence[_Step]) -> str:
    if step.before in ("|", "|&") and step.program in _INTERPRETERS and _reads_program(step):
        return f"It runs the output of another command as a program (piped to {step.program})."
    return f"It runs text as a command ({step.program})." if step.program == "eval" else ""


def _loses_history(step: _Step, _: Sequence[_Step]) -> str:
    if step.program != "git":
        return ""
    words = step.rest
    while words[:1] and words[0].startswith("-"):
        words = words[2 if words[0] in ("-C", "-c") else 1 :]
    match words:
        case ("push", *others):
            is_forced = step.has("f", "--force", "--force-with-lease", "--mirror", "--delete")
            is_forced = is_forced or any(word.startswith("+") for word in others)
            return "It overwrites or deletes commits in a remote repository (git push --force)." if is_forced else ""
        case ("reset", *others):
            is_loss = "--hard" in others
        case ("clean", *_) | ("branch", *_):
            is_loss = step.has("fD", "--force")
        case ("checkout", *others) | ("restore", *others):
            is_loss = words[0] == "restore" or "." in others or "--" in others
        case ("stash", "drop" | "clear", *_):
            is_loss = True
        case _:
            is_loss = False
    return "It discards changes that are not saved elsewhere (git)." if is_loss else ""


def _opens_rights(step: _Step, _: Sequence[_Step]) -> str:
    if step.program in ("chmod", "chown", "chgrp") and step.has("R", "--recursive"):
        return f"It changes the permissions of a whole folder ({step.program} -R)."
    if step.program == "chmod" and any(re.fullmatch(r"[0-7]?777|[ugoa]*\+[rwx]*s[rwx]*", word) for word in step.rest):
        return "It gives everyone access to a file or lets it run as its owner (chmod)."
    return ""


def _changes_system(step: _Step, _: Sequence[_Step]) -> str:
    if step.program in _SYSTEM:
        return f"It changes the system outside the workspace ({step.program})."
    if step.program in ("kill", "pkill", "killall") and step.rest:
        return f"It ends other programs ({step.program})."
    return ""


def _publishes(step: _Step, _: Sequence[_Step]) -> str:
    if (step.program, *step.rest[:1]) in (
        ("npm", "publish"),
        ("cargo", "publish"),
        ("twine", "upload"),
        ("uv", "publish"),
    ):
        return f"It publishes a package ({step.program})."
    sends = step.has("dFT", "--data", "--data-binary", "--form", "--upload-file", "--post-file")
    return "It sends data to another machine." if step.program in _DOWNLOADS and sends else ""


_CHECKS: tuple[Callable[[_Step, Sequence[_Step]], str], ...] = (
    _runs_download,
    _is_administrator,
    _deletes,
    _runs_pipe,
    _loses_history,
    _opens_rights,
    _changes_system,
    _publishes,
)


# ── Written files ────────────────────────────────────────────────────────────────────────────────


def _redirected(command: str) -> list[str]:
    return [found.strip("\"'") for found in _REDIRECTION.findall(command)]


def _written(steps: Sequence[_Step]) -> Iterator[str]:
    for step in steps:
        is_editing = step.program in ("sed", "perl") and step.has("i", "--in-place")
        if step.program in _WRITERS or is_editing:
            yield from (word for word in step.rest if not word.startswith("-"))


def _is_outside(target: str, root: str, folder: str) -> bool:
    if target.startswith(_HARMLESS_TARGETS):
        return False
    if target.startswith(("~", "$HOME", "${HOME")):
        return True
    place = os.path.normpath(os.path.join(root, folder, target))  # noqa: PTH118 - nothing is opened: text only
    return place != root and not place.startswith(f"{root.rstrip('/')}/")


def _protected(command: str, steps: Sequence[_Step], targets: Sequence[str]) -> str:
    is_reading = not targets and all(step.program in _READERS or step.program == "git" for step in steps)
    named = targets if is_reading else loose_words(command)
    return next(filter(None, (protection_warning(word.removeprefix("./")) for word in named)), "")
