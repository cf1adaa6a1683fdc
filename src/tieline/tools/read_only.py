"""Read-only commands: the few whose arguments can neither run a program nor write a file.

A grant can cover such a command in one folder with any arguments. A grant for any other command covers only its
exact text: most programs have some option that makes them run or write something, and a list of such options would
never be complete. So this module lists the commands and options that are known to be harmless; a command with an
unlisted option is not read-only. Paths in the arguments must be below the folder.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class _AllowedOptions(NamedTuple):
    """The allowed options of a command: long names, with or without `=value`, and a pattern for short options."""

    names: frozenset[str]
    short: re.Pattern[str]


def _options(names: str, short: str) -> _AllowedOptions:
    return _AllowedOptions(frozenset(names.split()), re.compile(short))


_GIT_CHANGES = (
    "--stat --shortstat --numstat --dirstat --summary --name-only --name-status --raw --patch --no-patch --unified "
    "--diff-filter --find-renames --no-renames --find-copies --ignore-all-space --ignore-space-change "
    "--ignore-blank-lines --word-diff --minimal --patience --histogram --no-ext-diff --no-textconv --color --no-color "
    "--abbrev --full-index --relative --no-prefix --exit-code --quiet --check --cc --diff-merges --merge-base"
)
_GIT_COMMITS = (
    "--oneline --graph --decorate --no-decorate --all --branches --tags --remotes --max-count --skip --since --until "
    "--after --before --author --committer --grep --all-match --invert-grep --regexp-ignore-case --fixed-strings "
    "--reverse --merges --no-merges --first-parent --follow --format --pretty --abbrev-commit --no-abbrev-commit "
    "--date --date-order --topo-order --left-right --cherry-pick --no-walk --full-history"
)
_GIT_SHORT = r"-(?:\d+|[puswbiqz]|[nUMCSGL].*)"

_READ_ONLY: Mapping[tuple[str, ...], _AllowedOptions] = {
    ("ls",): _options(
        "--all --almost-all --human-readable --recursive --reverse --size --sort --time --classify --directory --inode "
        "--color --format --full-time --group-directories-first --no-group --numeric-uid-gid",
        r"-[1AaBCcdFfGghHiklLmnopqQrRsStuUvxX]+",
    ),
    ("pwd",): _options("--logical --physical", r"-[LP]+"),
    ("wc",): _options("--bytes --chars --lines --words --max-line-length", r"-[cmlwL]+"),
    ("du",): _options(
        "--all --apparent-size --human-readable --max-depth --summarize --total", r"-(?:[abchkmsS]+|d\d*)"
    ),
    ("git", "status"): _options(
        "--short --branch --long --porcelain --untracked-files --ignored --show-stash --ahead-behind --renames",
        r"-(?:[sbvz]+|u(?:no|normal|all)?)",
    ),
    ("git", "log"): _options(f"{_GIT_CHANGES} {_GIT_COMMITS}", _GIT_SHORT),
    ("git", "show"): _options(f"{_GIT_CHANGES} {_GIT_COMMITS}", _GIT_SHORT),
    ("git", "diff"): _options(f"{_GIT_CHANGES} --cached --staged", r"-(?:[puswbRz]|[UMCSG].*)"),
    ("git", "shortlog"): _options(f"{_GIT_COMMITS} --numbered --summary --email", r"-[nse]+"),
    ("git", "blame"): _options("--date --show-name --show-number --show-email --root", r"-(?:[lstfnewCM]+|L.*)"),
    ("git", "describe"): _options("--all --tags --long --always --abbrev --dirty --exact-match", r"-(?!.)"),
    ("git", "ls-files"): _options(
        "--cached --deleted --modified --others --ignored --stage --exclude-standard --full-name", r"-[cdmosz]+"
    ),
}
_OUTSIDE = re.compile(r"\A[/~]|(?:\A|/)\.\.(?:/|\Z)|:[/~]|:(?:\.\./)")
"""Matches an argument with a path that leads out of the folder, even after a colon (`<commit>:<path>`)."""
_EXPANDED = re.compile(r"[*?\[{]")
"""Matches characters that a shell may expand to file names. A file name can look like an option (`--output=x`)."""


def read_only_prefix(words: Sequence[str]) -> tuple[str, ...] | None:
    """Return the leading words that name a read-only command (such as `git log`), or None for any other command."""
    return next((prefix for prefix in _READ_ONLY if tuple(words[: len(prefix)]) == prefix), None)


def is_read_only(words: Sequence[str]) -> bool:
    """Return whether a simple command starts no other program, writes nothing, and names no path outside its folder."""
    prefix = read_only_prefix(words)
    if prefix is None:
        return False
    options, has_ended = _READ_ONLY[prefix], False
    for word in words[len(prefix) :]:
        value = word.partition("=")[2] if word.startswith("--") else word
        if _OUTSIDE.search(value) or _EXPANDED.search(word):
            return False
        if has_ended or not word.startswith("-"):
            continue
        if word == "--":
            has_ended = True
        elif not _is_known(word, options):
            return False
    return True


def _is_known(word: str, options: _AllowedOptions) -> bool:
    if word.startswith("--"):
        return word.partition("=")[0] in options.names
    return options.short.fullmatch(word) is not None
