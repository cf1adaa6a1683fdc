"""Decide what the demo model does in a leg: follow a script, call tools, answer in JSON, or explain what it can do."""

import re
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from tieline.demo import edit_formats, project_summary, script, setup_help, summaries
from tieline.demo.action_plan import plan_actions
from tieline.demo.actions import Action, ActionKind
from tieline.demo.consulting import consult
from tieline.demo.conversation import DemoConversation, before_last_request, read_conversation
from tieline.demo.patches import is_patch
from tieline.demo.phrases import brief, commit_message, counted, listed, report, shortened, title_of, unquoted
from tieline.demo.reply_steps import CallTool, DemoReply, Say, Step, Think
from tieline.demo.schema_filler import FillHints, SchemaFiller
from tieline.demo.tool_arguments import callable_tools, guess_call
from tieline.demo.tool_matching import MatchedCall, describe, match_tools
from tieline.model.content import Text
from tieline.model.errors import GatewayError
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
_NO_TOOLS = "This request offers no tools. In a client that has some, try `read README.md` or `run: ls`."
_FINAL = re.compile(r"final_?(?:answer|result|output)", re.IGNORECASE)
_NEEDS: dict[ActionKind, str] = {
    "read": "`read` or `bash`",
    "write": "`write` or `bash`",
    "edit": "`edit` or `bash`",
    "list": "`list` or `bash`",
    "grep": "`grep` or `bash`",
    "glob": "`glob` or `bash`",
    "shell": "`bash`",
    "plan": "`update_plan`",
}
_EXAMPLES: tuple[tuple[Action, str], ...] = (
    (Action(kind="read", path="README.md"), "read README.md"),
    (Action(kind="shell", command="ls"), "run: ls -la"),
    (Action(kind="write", path="a.txt", content="hello"), "write hello to a.txt, then read a.txt"),
)


def decide(request: Request) -> DemoReply:
    """Return the demo model's reply to a request. If the request contains an invalid script, the reply is an error."""
    conversation = read_conversation(request.messages)
    user_text = conversation.user_text
    system = conversation.system[:20_000]
    if summaries.is_asked(user_text):
        return DemoReply(steps=(Say(text=_summary(request)),))
    if not request.tools and request.output is None and _TITLE.search(f"{system}\n{user_text[:300]}"):
        return DemoReply(steps=(Say(text=title_of(user_text)),))
    if not request.tools and _COMMIT.search(system):
        return DemoReply(steps=(Say(text=commit_message(user_text)),))
    try:
        scripted = script.play(user_text, conversation.rounds)
    except GatewayError as error:
        return DemoReply(ending=error.failed())
    return scripted or consult(request, conversation) or DemoReply(steps=_Decision(request, conversation).steps())


def _summary(request: Request) -> str:
    """Return a summary of the conversation up to, but not including, the request for the summary."""
    before = read_conversation(before_last_request(request.messages))
    return summaries.write(before.user_text, [(outcome.name, outcome.text) for outcome in before.outcomes])


class _Decision:
    """Decides on the steps of one leg, if the user's text contains no script."""

    def __init__(self, request: Request, conversation: DemoConversation) -> None:
        self._request = request
        self._conversation = conversation
        self._user_text = conversation.user_text
        choice = request.tool_choice
        self._tools = callable_tools(request.tools, choice.names) if choice.mode != "none" else ()
        self._missing: list[Action] = []
        self._plan = self._match_plan()

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
        return (*steps, *(matched.call for matched in calls))

    # Which tools to call

    def _match_plan(self) -> list[list[MatchedCall]]:
        """Return the tool calls for each requested step. Add actions without a suitable tool to `_missing`.

        A patch can replace only whole lines, so the files to be patched are read in an earlier step.
        """
        steps: list[list[MatchedCall]] = []
        for actions in self._requested():
            patched = [action for action in actions if self._is_patched(action)]
            made = sum(map(len, steps))
            steps += [[self._match(Action(kind="read", path=action.path))[0] for action in patched]] if patched else []
            contents = [bare(outcome.text) for outcome in self._conversation.outcomes[made : made + len(patched)]]
            known = dict(zip(patched, contents, strict=False))
            step = []
            for action in actions:
                matched = self._match(self._with_result(replace(action, content=known.get(action, action.content))))
                step += matched
                self._missing += [] if matched else [action]
            steps.append(step)
        return steps

    def _match(self, action: Action) -> list[MatchedCall]:
        return match_tools(action, self._tools, self._conversation.directory)

    def _is_patched(self, action: Action) -> bool:
        """Return whether an edit is made with a patch, and the client has a tool to read the file first."""
        if action.kind != "edit" or not self._match(Action(kind="read", path=action.path)):
            return False
        return any(is_patch(matched.call) for matched in self._match(action))

    def _requested(self) -> Sequence[Sequence[Action]]:
        if self._is_about_project:
            return project_summary.steps(self._conversation.outcomes) if self._tools else ()
        return plan_actions(self._user_text, [tool.name for tool in self._tools])

    @property
    def _is_about_project(self) -> bool:
        return project_summary.is_asked(self._user_text[:200])

    def _with_result(self, action: Action) -> Action:
        """Return the action, with content such as "it" (`write it to b.txt`) replaced by the last tool result."""
        outcomes = self._conversation.outcomes
        if action.kind == "write" and outcomes and _IT.fullmatch(action.content):
            return replace(action, content=bare(outcomes[-1].text))
        return action

    def _next_calls(self) -> list[MatchedCall]:
        """Return the next calls of the plan.

        The number of tool results shows how many calls have been made. A step may be only partly done, because a
        client may run parallel calls one by one.
        """
        done = len(self._conversation.outcomes)
        for step in self._plan:
            if done < len(step):
                is_single = self._request.tool_choice.parallel is False
                return step[done : done + 1] if is_single else step[done:]
            done -= len(step)
        return []

    def _forced_call(self) -> CallTool:
        """Return a call for a request that requires one.

        Call a tool for final answers if the client offers one, otherwise the first tool.
        """
        final = next((tool for tool in self._tools if _FINAL.search(tool.name)), None)
        tool: ClientTool = final or self._tools[0]
        text = self._user_text if not self._conversation.rounds or final is None else self._result_text()
        return guess_call(tool, text, self._conversation.directory)

    # Text and thinking

    def _thinks(self) -> bool:
        reasoning = self._request.reasoning
        if reasoning.mode is not None:
            return reasoning.mode != "off"
        return reasoning.effort not in (None, "none") or bool(_THINK.search(self._user_text[:4000]))

    def _thought(self, calls: list[MatchedCall]) -> str:
        quoted = repr(shortened(self._user_text, 60)) if self._user_text else "nothing"
        asked = f"The user says: {quoted}."
        if calls:
            return f"{asked} The client offers {listed(_names(calls))}, so I will call it."
        if self._conversation.rounds:
            return f"{asked} The tool results are here, so I will report them."
        return f"{asked} No tool is needed, so I will answer directly."

    def _announcement(self, calls: list[MatchedCall]) -> str:
        *others, last = [_lower(matched.phrase) for matched in calls]
        phrases = f"{', '.join(others)} and {last}" if others else last
        if not self._conversation.rounds:
            return f"{self._seen()}I will {phrases}."
        come = " ".join(brief(outcome) for outcome in self._conversation.rounds[-1])
        return f"{come} Next I will {phrases}."

    def _answer(self) -> str:
        output = self._request.output
        if output is None:
            return self._words()
        if output.schema is None:
            return msgspec.json.encode({"answer": self._words()}).decode()
        schema = load(output.schema)
        hints = FillHints(self._result_text() if self._conversation.rounds else self._user_text)
        return msgspec.json.encode(SchemaFiller(schema, hints).value(schema)).decode()

    def _words(self) -> str:
        outcomes = self._conversation.outcomes
        if self._is_about_project and (outcomes or not self._tools):
            return self._seen() + (project_summary.explanation(outcomes) if outcomes else setup_help.about_project())
        parts = [report(outcome) for outcome in outcomes]
        parts += [self._changes() or self._missing_tools()] if self._missing else []
        if not parts and (echo := _ECHO.fullmatch(self._user_text)):
            return self._seen() + unquoted(echo["what"])
        return self._seen() + ("\n\n".join(parts) or self._setup_help() or self._introduction())

    def _setup_help(self) -> str | None:
        has_shell = bool(match_tools(Action(kind="shell", command="ls"), self._tools))
        return setup_help.find(self._user_text[:200], has_shell=has_shell)

    def _result_text(self) -> str:
        return "\n".join(outcome.text for outcome in self._conversation.outcomes)

    def _seen(self) -> str:
        """Return a sentence about the images and files that the user attached; empty if there are none."""
        counts = ((self._conversation.images, "image"), (self._conversation.files, "file"))
        seen = [counted(number, noun) for number, noun in counts if number]
        return f"I see {' and '.join(seen)}. " if seen and not self._conversation.rounds else ""

    def _changes(self) -> str:
        """Return the requested file changes as text, for a client without tools that applies the edits in an answer.

        Return an empty string if the client does not ask for edits in such a format.
        """
        form = edit_formats.find_format(f"{self._conversation.system}\n{self._user_text}")
        is_all = all(action.kind in ("write", "edit") and action.path for action in self._missing)
        if self._request.tools or form is None or not is_all:
            return ""
        texts = [
            part.text for message in reversed(self._request.messages) for part in message.parts if type(part) is Text
        ]
        return "\n\n".join(
            edit_formats.change(form, action, edit_formats.find_file(action.path, texts)) for action in self._missing
        )

    def _missing_tools(self) -> str:
        """Return a text that says which tools are missing and which tools the client offers."""
        needs = [f"To {_lower(describe(action))}, I need a tool such as {_need(action)}." for action in self._missing]
        if self._request.tool_choice.mode == "none":
            why = "But the client does not allow tool calls in this request."
        else:
            why = f"The client offers {listed([tool.name for tool in self._tools]) or 'no tools'}."
        return " ".join([*needs, why])

    def _introduction(self) -> str:
        hello = "Hello! " if _GREETING.match(self._user_text) else ""
        me = f"{hello}I am Tieline's demo model. I need no network and no API key, and my answers are scripted."
        tries = [text for action, text in _EXAMPLES if match_tools(action, self._tools)] or self._other_examples()
        examples = "\n".join(f"- {text}" for text in tries)
        if not self._tools:
            return f"{me} {_NO_TOOLS} Without tools, try:\n\n{examples}"
        return f"{me} I understand simple requests and call the tools your client offers. Try:\n\n{examples}"

    def _other_examples(self) -> list[str]:
        if self._tools:
            return [f"call {tool.name} with …" for tool in self._tools[:3]]
        return ["say hello", "think about the sea"]


def _names(calls: list[MatchedCall]) -> list[str]:
    return list(dict.fromkeys(matched.call.name for matched in calls))


def _need(action: Action) -> str:
    return _NEEDS.get(action.kind, f"`{action.tool}`")


def _lower(phrase: str) -> str:
    return phrase[:1].lower() + phrase[1:]
