"""Decides what the demo model does in a leg: follow a script, call tools, answer in JSON, or say something helpful."""

import re
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from tieline.demo import edit_formats, guidance, project, script
from tieline.demo.answer import Answer, Call, Say, Step, Think
from tieline.demo.conversation import Conversation, listen
from tieline.demo.fitting import Fitted, fit, phrase_of
from tieline.demo.offer import fill, usable
from tieline.demo.phrases import brief, commit_message, counted, listed, report, shortened, title_of, unquoted
from tieline.demo.plans import plan
from tieline.demo.schema import Filler, Hints
from tieline.demo.wishes import Kind, Wish
from tieline.model.content import Text
from tieline.model.request import Request
from tieline.wire.shared.capabilities import ClientTool
from tieline.wire.shared.capabilities.schema import load
from tieline.wire.shared.file_text import bare

_TITLE = re.compile(
    r"title generator|\b(?:generate|create|write|provide|come up with)\b[^.\n]{0,80}\b(?:title|session name)\b"
    r"|\b(?:concise|short|brief)\b[^.\n]{0,40}\b(?:title|description of this session|name for (?:this|the) )",
    re.IGNORECASE,
)
_COMMIT = re.compile(r"\bgenerates? [^.\n]{0,40}\bcommit messages?\b", re.IGNORECASE)
_ECHO = re.compile(
    r"(?:please |just |now )*(?:say|repeat|echo|(?:reply|respond|answer) with)(?: after me| exactly| only| just)*"
    r"(?: the word| the words| this)?(?::\s*|\s+)(?P<what>.+)",
    re.IGNORECASE | re.DOTALL,
)
_THINK = re.compile(
    r"(?:^|[.,;]\s|\b(?:please|and|first) )think\b|\bthink (?:hard|step|carefully|about|deeply)", re.IGNORECASE
)
_GREETING = re.compile(r"(?:hi|hello|hey|good (?:morning|evening|day))\b", re.IGNORECASE)
_IT = re.compile(
    r"(?:it|that|this|(?:the|its|that) (?:results?|outputs?|contents?|text)|what you (?:read|found|got))", re.IGNORECASE
)
_NO_TOOLS = "There are no tools in this request; a client that has some can say `read README.md` or `run: ls`."
_FINAL = re.compile(r"final_?(?:answer|result|output)", re.IGNORECASE)
_NEEDS: dict[Kind, str] = {
    "read": "`read` or `bash`",
    "write": "`write` or `bash`",
    "edit": "`edit` or `bash`",
    "list": "`list` or `bash`",
    "grep": "`grep` or `bash`",
    "glob": "`glob` or `bash`",
    "shell": "`bash`",
}
_TRIES: tuple[tuple[Wish, str], ...] = (
    (Wish(kind="read", path="README.md"), "read README.md"),
    (Wish(kind="shell", command="ls"), "run: ls -la"),
    (Wish(kind="write", path="a.txt", content="hello"), "write hello to a.txt, then read a.txt"),
)


def decide(request: Request) -> Answer:
    """What to do in the next leg; raises BadRequest for a script that makes no sense."""
    talk = listen(request.messages)
    if not request.tools and request.output is None and _TITLE.search(f"{talk.system[:20_000]}\n{talk.words[:300]}"):
        return Answer(steps=(Say(text=title_of(talk.words)),))
    if not request.tools and _COMMIT.search(talk.system[:20_000]):
        return Answer(steps=(Say(text=commit_message(talk.words)),))
    if (block := script.find(talk.words)) is not None and (played := script.play(block, talk.rounds)) is not None:
        return played
    return Answer(steps=_Mind(request, talk).steps())


class _Mind:
    """One leg's worth of thought."""

    def __init__(self, request: Request, talk: Conversation) -> None:
        self._request = request
        self._talk = talk
        choice = request.tool_choice
        self._tools = usable(request.tools, choice.names) if choice.mode != "none" else ()
        self._missing: list[Wish] = []
        self._plan = self._fitted_plan()

    def steps(self) -> tuple[Step, ...]:
        calls = self._next_calls()
        is_forced = self._request.tool_choice.mode == "required" and bool(self._tools)
        steps: list[Step] = []
        if self._thinks():
            steps.append(Think(text=self._thought(calls)))
        if calls and not is_forced:
            steps.append(Say(text=self._announcement(calls)))
        if not calls and is_forced:
            steps.append(self._forced_call())
        elif not calls:
            steps.append(Say(text=self._answer()))
        return (*steps, *(fitted.call for fitted in calls))

    # What to call

    def _fitted_plan(self) -> list[list[Fitted]]:
        """The calls of each step that the user's words ask for; what no tool can do is put aside."""
        steps = []
        for wishes in self._wished():
            step = []
            for wish in wishes:
                fitted = fit(self._with_result(wish), self._tools, self._talk.directory)
                step += fitted
                self._missing += [] if fitted else [wish]
            steps.append(step)
        return steps

    def _wished(self) -> Sequence[Sequence[Wish]]:
        if self._is_about_project:
            return project.steps(self._talk.outcomes) if self._tools else ()
        return plan(self._talk.words, [tool.name for tool in self._tools])

    @property
    def _is_about_project(self) -> bool:
        return project.is_asked(self._talk.words[:200])

    def _with_result(self, wish: Wish) -> Wish:
        """`read a.txt, then write it to b.txt`."""
        outcomes = self._talk.outcomes
        if wish.kind == "write" and outcomes and _IT.fullmatch(wish.content):
            return replace(wish, content=bare(outcomes[-1].text))
        return wish

    def _next_calls(self) -> list[Fitted]:
        """The calls whose turn it is: counted by results, so that a client may also run them one by one."""
        done = len(self._talk.outcomes)
        for step in self._plan:
            if done < len(step):
                is_single = self._request.tool_choice.parallel is False
                return step[done : done + 1] if is_single else step[done:]
            done -= len(step)
        return []

    def _forced_call(self) -> Call:
        """A tool must be called although nothing asks for it: the one that ends the task, else the first."""
        final = next((tool for tool in self._tools if _FINAL.search(tool.name)), None)
        tool: ClientTool = final or self._tools[0]
        words = self._talk.words if not self._talk.rounds or final is None else self._words_of_results()
        return fill(tool, words, self._talk.directory)

    # What to say

    def _thinks(self) -> bool:
        reasoning = self._request.reasoning
        if reasoning.mode is not None:
            return reasoning.mode != "off"
        return reasoning.effort not in (None, "none") or bool(_THINK.search(self._talk.words[:4000]))

    def _thought(self, calls: list[Fitted]) -> str:
        asked = f"The user says: {shortened(self._talk.words, 60)!r}." if self._talk.words else "The user says nothing."
        if calls:
            return f"{asked} The client offers {listed(_names(calls))}, which fits, so I will call it."
        if self._talk.rounds:
            return f"{asked} The results have come back, so I will report them."
        return f"{asked} That needs no tool, so I will answer in words."

    def _announcement(self, calls: list[Fitted]) -> str:
        *others, last = [_lower(fitted.phrase) for fitted in calls]
        phrases = f"{', '.join(others)} and {last}" if others else last
        if not self._talk.rounds:
            return f"{self._seen()}I will {phrases}."
        come = " ".join(brief(outcome) for outcome in self._talk.rounds[-1])
        return f"{come} Next I will {phrases}."

    def _answer(self) -> str:
        output = self._request.output
        if output is None:
            return self._words()
        if output.schema is None:
            return msgspec.json.encode({"answer": self._words()}).decode()
        schema = load(output.schema)
        hints = Hints(self._words_of_results() if self._talk.rounds else self._talk.words)
        return msgspec.json.encode(Filler(schema, hints).value(schema)).decode()

    def _words(self) -> str:
        outcomes = self._talk.outcomes
        if self._is_about_project and (outcomes or not self._tools):
            return self._seen() + (project.explanation(outcomes) if outcomes else guidance.about_project())
        parts = [report(outcome) for outcome in outcomes]
        parts += [self._changes() or self._lack()] if self._missing else []
        if not parts and (echo := _ECHO.fullmatch(self._talk.words)):
            return self._seen() + unquoted(echo["what"])
        return self._seen() + ("\n\n".join(parts) or self._guidance() or self._introduction())

    def _guidance(self) -> str | None:
        return guidance.find(self._talk.words[:200], has_shell=bool(fit(Wish(kind="shell", command="ls"), self._tools)))

    def _words_of_results(self) -> str:
        return "\n".join(outcome.text for outcome in self._talk.outcomes)

    def _seen(self) -> str:
        """How many pictures and documents came with the user's words."""
        talk = self._talk
        seen = [counted(number, noun) for number, noun in ((talk.images, "image"), (talk.files, "file")) if number]
        return f"I see {' and '.join(seen)}. " if seen and not talk.rounds else ""

    def _changes(self) -> str:
        """The changes of files, for a client that has no tools and applies what it finds in the text."""
        form = edit_formats.find_format(f"{self._talk.system}\n{self._talk.words}")
        is_all = all(wish.kind in ("write", "edit") and wish.path for wish in self._missing)
        if self._request.tools or form is None or not is_all:
            return ""
        texts = [
            part.text for message in reversed(self._request.messages) for part in message.parts if type(part) is Text
        ]
        return "\n\n".join(
            edit_formats.change(form, wish, edit_formats.find_file(wish.path, texts)) for wish in self._missing
        )

    def _lack(self) -> str:
        """What could not be done, and why."""
        needs = [f"To {_lower(phrase_of(wish))} I need a tool such as {_need(wish)}." for wish in self._missing]
        if self._request.tool_choice.mode == "none":
            why = "But the client says I may not call tools now."
        else:
            why = f"The client offers {listed([tool.name for tool in self._tools]) or 'no tools'}."
        return " ".join([*needs, why])

    def _introduction(self) -> str:
        hello = "Hello! " if _GREETING.match(self._talk.words) else ""
        me = f"{hello}I am Tieline's demo model: no network, no key, the same answer every time."
        tries = [text for wish, text in _TRIES if fit(wish, self._tools)] or self._own_tries()
        examples = "\n".join(f"- {text}" for text in tries)
        if not self._tools:
            return f"{me} {_NO_TOOLS} Try:\n\n{examples}"
        return f"{me} I understand simple requests, and call the tools that your client offers. Try:\n\n{examples}"

    def _own_tries(self) -> list[str]:
        if self._tools:
            return [f"call {tool.name} with …" for tool in self._tools[:3]]
        return ["say hello", "think about the sea"]


def _names(calls: list[Fitted]) -> list[str]:
    return list(dict.fromkeys(fitted.call.name for fitted in calls))


def _need(wish: Wish) -> str:
    return _NEEDS.get(wish.kind, f"`{wish.tool}`")


def _lower(phrase: str) -> str:
    return phrase[:1].lower() + phrase[1:]
