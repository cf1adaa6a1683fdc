"""Scripts for the demo model. A script is a fenced block in the user's text that defines the reply line by line.

    ```tieline
    think: The user wants two files.
    text: Let me look.
    call: read {"path": "a.txt"}
    call: read {"path": "b.txt"}
    ---
    text: The first says {{result}}, the second {{result:2}}.
    usage: in=10 out=5 cache_read=3 cache_write=1 reasoning=2
    stop: end_turn
    ```

`---` separates legs. The first leg is played at once, and each further leg after the next round of tool results. Other
lines are `freeform: name raw text`, `pause: seconds` (at most 60), `stop: reason` (a text may follow stop_sequence or
refusal) and `error: kind message`, which must be the last line of its leg. Consecutive lines of text (or of thinking)
form one part. Empty lines and lines that start with `#` are ignored. The client's max_tokens and stop sequences apply
unless the leg has its own `stop:` line.
"""

import re
from collections.abc import Callable, Sequence
from typing import get_args

import msgspec

from tieline.demo.conversation import CallOutcome
from tieline.demo.reply_steps import CallTool, DemoReply, Say, Silence, Step, Think
from tieline.model.errors import STATUS, BadRequest
from tieline.model.events import ErrorKind, Failed, Finished, StopReason, Usage

MAX_PAUSE = 60.0
_BLOCK = re.compile(r"^[ \t]*```tieline[ \t]*\r?$", re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*```[ \t]*\r?$", re.MULTILINE)
_RESULT = re.compile(r"\{\{\s*result(?::(\d{1,4}))?\s*\}\}")
_COUNTS = {
    "in": "input",
    "out": "output",
    "cache_read": "cache_read",
    "cache_write": "cache_write",
    "reasoning": "reasoning",
}


def play(user_text: str, rounds: Sequence[Sequence[CallOutcome]]) -> DemoReply | None:
    """Return the scripted reply that follows these rounds of tool results.

    Return None if the text contains no script, or if all legs of the script have been played. Raise BadRequest if the
    script is invalid. The whole script is parsed every time, so that a mistake in a later leg is reported at once.
    """
    script = _find(user_text)
    if script is None:
        return None
    legs = [_ScriptedLeg([])]
    latest = rounds[-1] if rounds else ()
    for number, line in enumerate(script.splitlines(), 1):
        if line.strip() == "---":
            legs.append(_ScriptedLeg(latest if len(legs) == len(rounds) else None))
        elif line.strip() and not line.lstrip().startswith("#"):
            legs[-1].read(line.lstrip(), f"line {number} of the script")
    return legs[len(rounds)].answer() if len(rounds) < len(legs) else None


def _find(user_text: str) -> str | None:
    begin = _BLOCK.search(user_text)
    if begin is None:
        return None
    end = _FENCE.search(user_text, begin.end())
    if end is None:
        raise BadRequest("the script has no closing ``` line")
    return user_text[begin.end() + 1 : end.start()]


class _ScriptedLeg:
    """Parses the lines of one leg of a script.

    `results` are the tool results that replace placeholders such as `{{result}}`. They are None if the leg is only
    checked and not played.
    """

    def __init__(self, results: Sequence[CallOutcome] | None) -> None:
        self._results = results
        self._steps: list[Step] = []
        self._usage: Usage | None = None
        self._ending: Finished | Failed | None = None

    def read(self, line: str, at: str) -> None:
        key, colon, value = line.partition(":")
        verbs: dict[str, Callable[[str, str], None]] = {
            "think": self._think,
            "text": self._text,
            "call": self._call,
            "freeform": self._freeform,
            "usage": self._count,
            "stop": self._stop,
            "error": self._error,
            "pause": self._pause,
        }
        verb = verbs.get(key.strip())
        if not colon or verb is None:
            raise BadRequest(f"{at}: expected one of {', '.join(verbs)} and a colon, found {line[:60]!r}")
        if isinstance(self._ending, Failed):
            raise BadRequest(f"{at}: nothing can follow an error")
        verb(value.removeprefix(" "), at)

    def answer(self) -> DemoReply:
        return DemoReply(steps=tuple(self._steps), usage=self._usage, ending=self._ending)

    def _think(self, value: str, at: str) -> None:
        text = self._with_results(value, at)
        match self._steps:
            case [*before, Think() as last]:
                self._steps = [*before, Think(text=f"{last.text}\n{text}")]
            case _:
                self._steps.append(Think(text=text))

    def _text(self, value: str, at: str) -> None:
        text = self._with_results(value, at)
        match self._steps:
            case [*before, Say() as last]:
                self._steps = [*before, Say(text=f"{last.text}\n{text}")]
            case _:
                self._steps.append(Say(text=text))

    def _call(self, value: str, at: str) -> None:
        name, _, arguments = value.strip().partition(" ")
        arguments = arguments.strip() or "{}"
        if not name:
            raise BadRequest(f"{at}: expected the name of a tool and a JSON object")
        try:
            msgspec.json.decode(arguments, type=dict[str, msgspec.Raw])
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            raise BadRequest(f"{at}: the arguments are not a JSON object: {error}") from error
        self._steps.append(CallTool(name=name, arguments=arguments))

    def _freeform(self, value: str, at: str) -> None:
        name, _, text = value.lstrip().partition(" ")
        if not name:
            raise BadRequest(f"{at}: expected the name of a tool and its raw text")
        self._steps.append(CallTool(name=name, arguments=text, freeform=True))

    def _count(self, value: str, at: str) -> None:
        counts = {}
        for pair in value.split():
            key, _, number = pair.partition("=")
            if key not in _COUNTS or not re.fullmatch(r"[0-9]{1,12}", number):
                raise BadRequest(f"{at}: expected counts such as in=10, of {', '.join(_COUNTS)}; found {pair[:60]!r}")
            counts[_COUNTS[key]] = int(number)
        self._usage = Usage(**counts)

    def _stop(self, value: str, at: str) -> None:
        word, _, rest = value.strip().partition(" ")
        try:
            reason = StopReason(word)
        except ValueError:
            raise BadRequest(f"{at}: expected one of {', '.join(StopReason)}, found {word[:60]!r}") from None
        sequence = rest or None if reason is StopReason.STOP_SEQUENCE else None
        detail = rest or None if reason is StopReason.REFUSAL else None
        self._ending = Finished(reason=reason, sequence=sequence, detail=detail)

    def _error(self, value: str, at: str) -> None:
        word, _, message = value.strip().partition(" ")
        kind = next((kind for kind in STATUS if kind == word), None)
        if kind is None:
            raise BadRequest(f"{at}: expected one of {', '.join(get_args(ErrorKind))}, found {word[:60]!r}")
        self._ending = Failed(kind=kind, message=message or "This error comes from the script.", status=STATUS[kind])

    def _pause(self, value: str, at: str) -> None:
        if not re.fullmatch(r"\s*[0-9]{1,3}(\.[0-9]{1,6})?\s*", value) or float(value) > MAX_PAUSE:
            raise BadRequest(f"{at}: expected seconds from 0 to {MAX_PAUSE:g}, found {value[:60]!r}")
        self._steps.append(Silence(seconds=float(value)))

    def _with_results(self, text: str, at: str) -> str:
        results = self._results
        if results is None:
            return text

        def fetch(found: re.Match[str]) -> str:
            number = int(found[1] or 1)
            if not 1 <= number <= len(results):
                raise BadRequest(f"{at}: there is no result {number}, the last round has {len(results)}")
            return results[number - 1].text

        return _RESULT.sub(fetch, text)
