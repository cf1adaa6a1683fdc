"""The command `tieline completion`: prints scripts for shells, and finds the completions of a command line.

The scripts are short. For each completion they run `tieline completion` again, with the typed words in the variable
TIELINE_COMPLETE, so that they never become out of date.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

VARIABLE = "TIELINE_COMPLETE"
SEPARATOR = "\x1f"
"""Separates the typed words in the variable."""
MODEL_OPTIONS = frozenset(("-m", "--model", "--models"))

BASH = r"""# Completion of tieline for bash. Add to ~/.bashrc: eval "$(tieline completion bash)"
_tieline() {
    local line=${COMP_LINE:0:COMP_POINT} kind text help typed current prefix="" rest
    read -ra typed <<< "$line"
    [[ $line == *[[:space:]] ]] && typed+=("")
    current=${typed[${#typed[@]}-1]}
    # The shell replaces only what follows the last = or : in a word, if it breaks words there.
    rest=$current
    [[ $COMP_WORDBREAKS == *=* ]] && rest=${rest##*=}
    [[ $COMP_WORDBREAKS == *:* ]] && rest=${rest##*:}
    prefix=${current%"$rest"}
    COMPREPLY=()
    while IFS=$'\t' read -r kind text help; do
        case $kind in
            word) COMPREPLY+=("${text#"$prefix"}") ;;
            files | folders)
                compopt -o filenames 2> /dev/null  # missing in old versions
                [[ $kind == files ]] && help=-f || help=-d
                while IFS= read -r text; do
                    COMPREPLY+=("$text")
                done < <(compgen "$help" -- "$rest") ;;
        esac
    done < <(IFS=$'\x1f'; TIELINE_COMPLETE="${typed[*]:1}" tieline completion bash 2> /dev/null)
}
complete -F _tieline tieline
"""

ZSH = r"""#compdef tieline
# Completion of tieline for zsh. Add to ~/.zshrc, after compinit: eval "$(tieline completion zsh)"
_tieline() {
    local kind text help
    local -a described
    while IFS=$'\t' read -r kind text help; do
        case $kind in
            word) described+=("${text//:/\\:}:$help") ;;
            files) _files ;;
            folders) _files -/ ;;
        esac
    done < <(TIELINE_COMPLETE="${(pj:\x1f:)words[2,CURRENT]}" tieline completion zsh 2> /dev/null)
    (( $#described )) && _describe tieline described
}
if [[ $funcstack[1] == _tieline ]]; then
    _tieline "$@"
else
    compdef _tieline tieline
fi
"""

FISH = r"""# Completion of tieline for fish. Save it: tieline completion fish > ~/.config/fish/completions/tieline.fish
function __tieline_complete
    set -l typed (commandline -opc) (commandline -ct)
    set -l current (commandline -ct)
    set -lx TIELINE_COMPLETE (string join \x1f -- $typed[2..])
    tieline completion fish 2> /dev/null | while read -d \t -l kind text help
        switch $kind
            case word
                printf '%s\t%s\n' $text $help
            case files
                __fish_complete_path $current
            case folders
                __fish_complete_directories $current
        end
    end
end
complete -c tieline -f -a '(__tieline_complete)'
"""

SCRIPTS: Mapping[str, str] = {"bash": BASH, "zsh": ZSH, "fish": FISH}

ModelNames = Callable[[], Sequence[str]]


class Candidate(NamedTuple):
    """A possible completion of the word being typed.

    `kind` is `word`, `files` or `folders`. The last two stand for all files or folders that begin with that word.
    """

    kind: str
    text: str = ""
    help: str = ""


def run(parser: argparse.ArgumentParser, shell: str, env: Mapping[str, str]) -> str:
    """Return the script for a shell or, if the variable is set, the candidates for the words in it.

    Each candidate is a line with its kind, text and help, separated by tabs.
    """
    typed = env.get(VARIABLE)
    if typed is None:
        return SCRIPTS[shell]
    found = candidates(parser, typed.split(SEPARATOR), partial(configured_models, env))
    return "".join(f"{one.kind}\t{one.text}\t{one.help}\n" for one in found)


def candidates(parser: argparse.ArgumentParser, typed: Sequence[str], models: ModelNames) -> list[Candidate]:
    """Return the candidates that can replace the last typed word. `typed` does not include the name of the program."""
    place = _Place(parser)
    for word in typed[:-1]:
        place.advance(word)
    current = typed[-1] if typed else ""
    return [one for one in place.candidates(current, models) if one.kind != "word" or one.text.startswith(current)]


class _Place:
    """A position in a command line: the parser in charge, and the arguments that it expects next."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._enter(parser)

    def _enter(self, parser: argparse.ArgumentParser | None) -> None:
        """Continue with the parser of a subcommand, or with none if there is no such subcommand."""
        self._parser = parser
        self._positionals = [] if parser is None else [one for one in parser._actions if not one.option_strings]
        self._option: argparse.Action | None = None
        self._has_only_positionals = False

    def advance(self, word: str) -> None:
        """Move past a complete word."""
        if self._parser is None:
            return
        if self._option is not None:
            self._option = None
        elif word == "--":
            self._has_only_positionals = True
        elif word.startswith("-") and not self._has_only_positionals:
            name, equals, _ = word.partition("=")
            option = self._parser._option_string_actions.get(name)
            self._option = option if option is not None and option.nargs != 0 and not equals else None
        elif self._positionals:
            self._go_past(self._positionals[0], word)

    def _go_past(self, positional: argparse.Action, word: str) -> None:
        if isinstance(positional, argparse._SubParsersAction):
            self._enter(positional.choices.get(word))
        elif positional.nargs == argparse.REMAINDER:
            self._has_only_positionals = True
        elif positional.nargs not in ("*", "+"):
            del self._positionals[0]

    def candidates(self, current: str, models: ModelNames) -> Iterator[Candidate]:
        """Yield the candidates at this position. The caller must omit words that do not begin with `current`."""
        if self._parser is None:
            return
        if self._option is not None:
            yield from _values(self._option, models)
            return
        if current.startswith("-") and not self._has_only_positionals:
            yield from self._options(current, models)
            return
        for positional in self._positionals[:1]:
            yield from _values(positional, models)
        if self._positionals:
            return
        if self._has_only_positionals:  # arguments for another program
            yield Candidate("files")
        elif not current:
            yield from self._options(current, models)

    def _options(self, current: str, models: ModelNames) -> Iterator[Candidate]:
        actions = self._parser._option_string_actions if self._parser is not None else {}
        name, equals, _ = current.partition("=")
        if equals and name in actions:
            values = (one for one in _values(actions[name], models) if one.kind == "word")
            yield from (Candidate("word", f"{name}={one.text}", one.help) for one in values)
            return
        for name, action in actions.items():
            if action.help != argparse.SUPPRESS:
                yield Candidate("word", name, _line(action.help))


def _values(action: argparse.Action, models: ModelNames) -> Iterator[Candidate]:
    """Yield the possible values of an option or a positional argument, as far as they are known."""
    if isinstance(action, argparse._SubParsersAction):
        for one in action._choices_actions:
            if one.help != argparse.SUPPRESS:
                yield Candidate("word", str(one.dest), _line(one.help))
    elif action.choices is not None:
        yield from (Candidate("word", str(choice)) for choice in action.choices)
    elif action.dest == "client":
        yield from (Candidate("word", name) for name in _clients())
    elif not MODEL_OPTIONS.isdisjoint(action.option_strings):
        yield from (Candidate("word", name) for name in models())
    elif action.metavar in ("DIR", "FOLDER"):
        yield Candidate("folders")
    elif action.type is Path or action.nargs == argparse.REMAINDER or action.metavar in ("FILE", "PATH"):
        yield Candidate("files")


def _line(text: str | None) -> str:
    """Return a help text as one line without tabs."""
    return " ".join((text or "").replace("%%", "%").split())


def _clients() -> list[str]:
    """Return the names of clients and editors."""
    from tieline.clients.catalogue import CLIENTS  # noqa: PLC0415 - see `configured_models`
    from tieline.clients.snippets import EDITORS  # noqa: PLC0415 - see `configured_models`

    return sorted((*CLIENTS, *EDITORS))


def configured_models(env: Mapping[str, str]) -> list[str]:
    """Return the names of models that the configuration mentions, without asking any upstream.

    Return an empty list if the configuration is not valid. A file that the user does not trust is ignored.
    """
    # Imported here, because completion must be fast, and most of it needs none of this.
    from tieline.app.config import ConfigError  # noqa: PLC0415 - see above
    from tieline.app.config_file import load_config  # noqa: PLC0415 - see above
    from tieline.app.folders import user_folder  # noqa: PLC0415 - see above
    from tieline.app.trust import trusted_source  # noqa: PLC0415 - see above

    try:
        config = load_config(trusted_source(user_folder(env), Path.cwd()), env)
    except (ConfigError, OSError):
        return []
    names = {"demo/scripted"} if config.demo else set()
    names |= {name for name in (config.default_model, *config.aliases) if name is not None and "*" not in name}
    names |= {f"{name}/{model}" for name, upstream in config.upstreams.items() for model in upstream.models}
    return sorted(names)
