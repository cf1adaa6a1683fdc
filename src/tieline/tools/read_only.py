"""Commands that only look: the few whose arguments can neither run a program nor write a file.

"Always" may cover such a command with other arguments, in its own folder. Everything else can be allowed for good only
as exactly the same text: most programs run or write something if they are given the right option, and a list of those
that do is never complete. So this is a list of what is known to be harmless, down to the options; an option that is not
listed makes the command an ordinary one. Arguments must stay below the folder.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class _Options(NamedTuple):
    """What may follow: long names, as written or before a `=`; and short ones, as a pattern for the whole word."""

    names: frozenset[str]
    short: re.Pattern[str]


def _options(names: str, short: str) -> _Options:
    return _Options(frozenset(names.split()), re.compile(short))


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

_READ_ONLY: Mapping[tuple[str, ...], _Options] = {
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
"""An argument that leads out of the folder; after a colon: the path of `<commit>:<path>` and `-L<range>:<file>`."""


_EXPANDED = re.compile(r"[*?\[{]")
"""What a shell may replace by other words: a file can be called `--output=x`."""


def prefix_of(words: Sequence[str]) -> tuple[str, ...] | None:
    """Return the words that name a command which only looks, whatever follows them; None for any other command."""
    return next((prefix for prefix in _READ_ONLY if tuple(words[: len(prefix)]) == prefix), None)


def only_looks(words: Sequence[str]) -> bool:
    """Whether a simple command can neither run a program nor write, and names nothing outside its folder."""
    prefix = prefix_of(words)
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


def _is_known(word: str, options: _Options) -> bool:
    if word.startswith("--"):
        return word.partition("=")[0] in options.names
    return options.short.fullmatch(word) is not None
