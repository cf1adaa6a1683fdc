"""Agents that do not do what they should: one small scenario each, chosen by its name, with nothing of ours in them.

    python faulty.py <scenario> [file]

What a scenario does not say otherwise is answered as a good agent would: `echo` is one.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]

ASIDE: deque[str] = deque()


def send(message: Any) -> None:
    write(json.dumps(message) + "\n")


def write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def complain(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def answer(message: Any, result: Any) -> None:
    send({"jsonrpc": "2.0", "id": message["id"], "result": result})


def end(message: Any, reason: str = "end_turn") -> None:
    answer(message, {"stopReason": reason})


def tell(message: Any, **update: Any) -> None:
    session = message["params"]["sessionId"]
    send({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}})


def say(message: Any, text: str) -> None:
    tell(message, sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


def ask(message: Any, number: Any, method: str, **params: Any) -> None:
    params = {"sessionId": message["params"]["sessionId"], **params}
    send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def messages() -> Iterator[Any]:
    """What the client sends; first what was put aside."""
    while line := (ASIDE.popleft() if ASIDE else sys.stdin.readline()):
        yield json.loads(line)


def await_message(is_wanted: Callable[[Any], bool]) -> Any:
    """Read until what is wanted comes; what comes before it is put aside: a client may ask several things at once."""
    while line := sys.stdin.readline():
        if is_wanted(message := json.loads(line)):
            return message
        ASIDE.append(line)
    sys.exit()


def reply_to(number: Any) -> Any:
    """Read until the client answers one of our requests."""
    return await_message(lambda message: message.get("id") == number and "method" not in message)


def words_of(message: Any) -> str:
    return " ".join(block.get("text", "") for block in message["params"]["prompt"])


class Agent:
    """A good agent; scenarios change what it does with a prompt, or with anything else."""

    def __init__(self, file: str) -> None:
        self.file = Path(file) if file else None
        self.sessions = 0

    def run(self) -> None:
        for message in messages():
            method = message.get("method", "")
            deed = getattr(self, "on_" + method.replace("/", "_"), None)
            if deed is not None:
                deed(message)
            elif "id" in message and method:
                answer(message, {})

    def on_initialize(self, message: Any) -> None:
        answer(message, {"protocolVersion": 1, "agentCapabilities": {}})

    def on_session_new(self, message: Any) -> None:
        self.sessions += 1
        answer(message, {"sessionId": f"s{self.sessions}"})

    def on_session_prompt(self, message: Any) -> None:
        say(message, f"You said: {words_of(message)}")
        end(message)


class Remembers(Agent):
    """Keeps its sessions in a file and takes them up again; it says all that it was told in one."""

    def on_initialize(self, message: Any) -> None:
        answer(message, {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})

    def on_session_new(self, message: Any) -> None:
        self.sessions += 1
        answer(message, {"sessionId": f"m{os.getpid()}-{self.sessions}"})

    def on_session_load(self, message: Any) -> None:
        if message["params"]["sessionId"] in self.kept():
            answer(message, {})
        else:
            send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": "no such session"}})

    def on_session_prompt(self, message: Any) -> None:
        kept = self.kept()
        told = kept.setdefault(message["params"]["sessionId"], [])
        told.append(words_of(message))
        assert self.file is not None
        self.file.write_text(json.dumps(kept))
        say(message, json.dumps(told))
        if "wait" in words_of(message):
            await_message(lambda other: other.get("method") == "session/cancel")
        end(message)

    def kept(self) -> dict[str, list[str]]:
        kept: dict[str, list[str]] = json.loads(self.file.read_text()) if self.file and self.file.exists() else {}
        return kept


class Garbage(Agent):
    """Prints whatever comes to its mind between its messages."""

    def on_initialize(self, message: Any) -> None:
        write("\x1b[2J\x1b[HWelcome to the agent!\n\n")
        super().on_initialize(message)

    def on_session_prompt(self, message: Any) -> None:
        for noise in ("null\n", "42\n", '"words"\n', "[]\n", "{}\n", "[1, 2]\n", "{broken\n", "\xff\xfe\n", "\n"):
            write(noise)
        send({"jsonrpc": "2.0", "id": 4711, "result": {}})
        tell(message, sessionUpdate="something_new", what=1)
        tell(message, sessionUpdate=7)
        super().on_session_prompt(message)


class DiesAtStart(Agent):
    def on_initialize(self, message: Any) -> None:
        complain("\x1b[31merror:\x1b[0m no configuration found\nrun setup first\n")
        sys.exit(2)


class DiesOnce(Agent):
    """Dies of its first prompt without a word; the next process lives."""

    def on_session_prompt(self, message: Any) -> None:
        if self.file is not None and not self.file.exists():
            self.file.write_text("died")
            sys.exit(1)
        super().on_session_prompt(message)


class DiesAlways(Agent):
    def on_session_prompt(self, message: Any) -> None:
        complain("segmentation fault\n")
        sys.exit(1)


class DiesTalking(Agent):
    def on_session_prompt(self, message: Any) -> None:
        if "live" in words_of(message):
            super().on_session_prompt(message)
            return
        say(message, "Half an ans")
        complain("first\nsecond\nout of memory\n")
        os.kill(os.getpid(), signal.SIGKILL)


class Deaf(Agent):
    """Hears no cancel and no end: it has to be killed, and so has its child."""

    def on_session_prompt(self, message: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen(["sleep", "1000"])  # noqa: S607 - found on the PATH
        say(message, f"pid {os.getpid()}")
        while True:
            time.sleep(1000)


class Stubborn(Agent):
    """Hears no cancel and no end: every turn goes on until a file is there."""

    def on_session_prompt(self, message: Any) -> None:
        say(message, "Working.")
        while self.file is not None and not self.file.exists():
            time.sleep(0.01)
        say(message, " Done.")
        end(message)


class Slow(Agent):
    """Ends a cancelled turn, and has late words afterwards."""

    def on_session_prompt(self, message: Any) -> None:
        if "wait" not in words_of(message):
            super().on_session_prompt(message)
            return
        say(message, "waiting")
        await_message(lambda other: other.get("method") == "session/cancel")
        say(message, "too late")
        send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32603, "message": "aborted"}})
        say(message, "later still")


class CancelledPermission(Agent):
    """Waits for a permission; tells a file how it was answered when the turn was cancelled."""

    def on_session_prompt(self, message: Any) -> None:
        if "wait" not in words_of(message):
            super().on_session_prompt(message)
            return
        ask(message, 1, "session/request_permission", toolCall={"toolCallId": "c"}, options=OPTIONS)
        reply = reply_to(1)
        assert self.file is not None
        self.file.write_text(json.dumps(reply["result"]))
        end(message, "cancelled")


class FloodsStderr(Agent):
    def on_session_prompt(self, message: Any) -> None:
        for number in range(20_000):
            complain(f"warning {number}: " + "x" * 500 + "\n")
        super().on_session_prompt(message)


class HalfLine(Agent):
    """Begins a message and never ends it."""

    def on_session_prompt(self, message: Any) -> None:
        if "again" in words_of(message):
            super().on_session_prompt(message)
            return
        write('{"jsonrpc":"2.0","method":"session/up')
        while True:
            time.sleep(1000)


class Silent(Agent):
    def on_initialize(self, message: Any) -> None:
        complain("thinking about it\n")


class ReusesIds(Agent):
    """Asks twice under one id, and wants two answers."""

    def on_session_prompt(self, message: Any) -> None:
        for call in ("a", "b"):
            ask(message, 1, "session/request_permission", toolCall={"toolCallId": call}, options=OPTIONS)
        outcomes = [reply_to(1)["result"]["outcome"]["optionId"] for _ in range(2)]
        say(message, " ".join(outcomes))
        end(message)


class AnswersTwice(Agent):
    def on_session_new(self, message: Any) -> None:
        super().on_session_new(message)
        answer(message, {"sessionId": "another"})

    def on_session_prompt(self, message: Any) -> None:
        super().on_session_prompt(message)
        end(message, "refusal")
        send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": 1, "message": "no"}})


class UnknownCall(Agent):
    """Asks permission for a call that nobody heard of, with nothing but its id; then updates it."""

    def on_session_prompt(self, message: Any) -> None:
        ask(message, "x", "session/request_permission", toolCall={"toolCallId": "never"}, options=OPTIONS)
        chosen = reply_to("x")["result"]["outcome"]["optionId"]
        tell(message, sessionUpdate="tool_call_update", toolCallId="other", status="completed", rawOutput="out")
        say(message, f"chosen {chosen}")
        end(message)


class Huge(Agent):
    """Writes lines that are too long to keep: an update, and in time an answer."""

    def on_session_prompt(self, message: Any) -> None:
        if "answer" in words_of(message):
            write(f'{{"jsonrpc":"2.0","id":{message["id"]},"result":{{"stopReason":"end_turn","junk":"')
            self.fill()
            write('"}}\n')
            return
        write('{"jsonrpc":"2.0","method":"session/update","params":{"junk":"')
        self.fill()
        write('"}}\n')
        super().on_session_prompt(message)

    def fill(self) -> None:
        for _ in range(66):
            write("x" * 1024 * 1024)


class Asks(Agent):
    """Asks for what nobody offers, asks before a session is there, and tells before it is opened."""

    def on_session_new(self, message: Any) -> None:
        commands = [{"name": "review", "description": "Look at it"}]
        early = {"sessionId": "s1", "update": {"sessionUpdate": "available_commands_update"}}
        early["update"]["availableCommands"] = commands  # type: ignore[index] # JSON
        send({"jsonrpc": "2.0", "method": "session/update", "params": early})
        super().on_session_new(message)

    def on_session_prompt(self, message: Any) -> None:
        refusals = []
        for number, method in enumerate(("fs/read_text_file", "craft/unheard_of", "_private/thing")):
            ask(message, number, method, path="/etc/passwd")
            refusals.append(reply_to(number)["error"]["code"])
        ask({"params": {"sessionId": "nobody"}}, 9, "session/request_permission", toolCall={}, options=OPTIONS)
        refusals.append("result" in reply_to(9))
        say(message, json.dumps(refusals))
        end(message)


class Cursor(Agent):
    """Has its plans approved and asks its questions by requests of its own."""

    def on_session_prompt(self, message: Any) -> None:
        if "question" in words_of(message):
            options = [{"id": "a", "label": "Apples"}, {"id": "b", "label": "Bananas"}]
            questions = [{"id": "q", "prompt": "Which fruit?", "options": options, "allowMultiple": True}]
            ask(message, 1, "cursor/ask_question", toolCallId="t", questions=questions)
        elif "plan" in words_of(message):
            ask(message, 1, "cursor/create_plan", toolCallId="t", name="Paint", plan="# Paint\n1. Buy paint")
        else:
            super().on_session_prompt(message)
            return
        outcome = reply_to(1)["result"]["outcome"]
        if "quiet" not in words_of(message):
            say(message, json.dumps(outcome, sort_keys=True))
        end(message)


class Qwen(Agent):
    """Carries its questions in a permission request."""

    def on_session_prompt(self, message: Any) -> None:
        options = [{"label": "Red"}, {"label": "Blue"}]
        meta = {"qwenInteractionKind": "user_question"}
        meta["qwenQuestions"] = [{"question": "Which colour?", "header": "Colour", "options": options}]  # type: ignore[assignment] # JSON
        call = {"toolCallId": "q", "title": "Ask", "_meta": meta}
        ask(message, 1, "session/request_permission", toolCall=call, options=OPTIONS)
        say(message, json.dumps(reply_to(1)["result"], sort_keys=True))
        end(message)


class Models(Agent):
    """Offers its models in the older way."""

    model = "flash"

    def on_session_new(self, message: Any) -> None:
        models = [{"modelId": "maker/flash", "name": "Flash"}, {"modelId": "maker/pro", "name": "Pro"}]
        answer(message, {"sessionId": "s1", "models": {"currentModelId": "maker/flash", "availableModels": models}})

    def on_session_set_model(self, message: Any) -> None:
        self.model = message["params"]["modelId"]
        answer(message, {})

    def on_session_prompt(self, message: Any) -> None:
        say(message, self.model)
        end(message)


class Login(Agent):
    def on_initialize(self, message: Any) -> None:
        methods = [{"id": "web", "name": "Browser", "type": "terminal", "args": ["login", "--now"]}]
        answer(message, {"protocolVersion": 1, "authMethods": methods if self.file else []})

    def on_session_new(self, message: Any) -> None:
        error = {"code": -32000, "message": "Authentication required"}
        send({"jsonrpc": "2.0", "id": message["id"], "error": error})


class Notices(Agent):
    """Tells much that is no answer, before and after the end of its turn."""

    def on_session_prompt(self, message: Any) -> None:
        tell(message, sessionUpdate="notice", severity="warning", title="Slow model", description="try another")
        tell(message, sessionUpdate="compaction_update", compactionId="c", status="in_progress")
        tell(message, sessionUpdate="user_message_chunk", content={"type": "text", "text": words_of(message)})
        link = {"type": "resource_link", "uri": "file:///a.md", "name": "a.md"}
        tell(message, sessionUpdate="agent_message_chunk", content=link)
        end(message, "gave_up")
        tell(message, sessionUpdate="usage_update", used=5, size=10)


class Prepares(Agent):
    """Announces a call before it knows the arguments, as Claude, OpenCode and Qwen do."""

    def on_session_prompt(self, message: Any) -> None:
        tell(message, sessionUpdate="tool_call", toolCallId="c1", title="bash", kind="execute", rawInput={})
        given = {"command": words_of(message), "description": "Does something"}
        tell(message, sessionUpdate="tool_call_update", toolCallId="c1", status="in_progress", rawInput=given)
        text = {"type": "content", "content": {"type": "text", "text": "3 failed, 5 passed"}}
        title = "Does something"
        tell(
            message, sessionUpdate="tool_call_update", toolCallId="c1", status="completed", title=title, content=[text]
        )
        end(message)


class PrintsAtTheEnd(Agent):
    """Asks first, and tells the output of its terminal together with the end of the call, as Codex does."""

    def on_session_prompt(self, message: Any) -> None:
        given = {"command": ["sh", "-c", "make test"]}
        call = {"toolCallId": "c1", "title": "make test", "kind": "execute", "rawInput": given}
        ask(message, 7, "session/request_permission", toolCall=call, options=OPTIONS)
        reply_to(7)
        meta = {"terminal_output": {"terminal_id": "t9", "data": "3 failed, 5 passed"}}
        tell(message, sessionUpdate="tool_call_update", toolCallId="c1", status="completed", _meta=meta)
        end(message)


class EndsSilently(Agent):
    """Ends its turn without a word when it is not allowed something, as OpenCode and Codex do."""

    def on_session_prompt(self, message: Any) -> None:
        words = words_of(message)
        if "first" in words:
            say(message, "Let me run that.")
        given = {"command": "make clean"}
        call = {"toolCallId": "c1", "title": "bash", "kind": "execute", "rawInput": given}
        ask(message, 7, "session/request_permission", toolCall=call, options=OPTIONS)
        reply_to(7)
        end(message, "cancelled" if "cancel" in words else "end_turn")


class TwoMessages(Agent):
    """Says two things one after the other."""

    def on_session_prompt(self, message: Any) -> None:
        for number, text in enumerate(("First message.", "Second message.")):
            block = {"type": "text", "text": text}
            tell(message, sessionUpdate="agent_message_chunk", messageId=f"m{number}", content=block)
        end(message)


class Summarises(Agent):
    """Tells the arguments as text in the call, and asks permission with a summary of them, as Kimi does."""

    def on_session_prompt(self, message: Any) -> None:
        arguments = json.dumps({"command": words_of(message), "timeout": 60})
        text = {"type": "content", "content": {"type": "text", "text": arguments}}
        tell(message, sessionUpdate="tool_call", toolCallId="c1", title="Bash", kind="execute", content=[text])
        summary = {"type": "content", "content": {"type": "text", "text": f"Requesting to run {arguments[13:24]}…"}}
        ask(
            message,
            7,
            "session/request_permission",
            toolCall={"toolCallId": "c1", "content": [summary]},
            options=OPTIONS,
        )
        say(message, json.dumps(reply_to(7)["result"]["outcome"]))
        tell(message, sessionUpdate="tool_call_update", toolCallId="c1", status="completed")
        end(message)


SCENARIOS: dict[str, Callable[[str], Agent]] = {
    "echo": Agent,
    "remembers": Remembers,
    "garbage": Garbage,
    "dies_at_start": DiesAtStart,
    "dies_once": DiesOnce,
    "dies_always": DiesAlways,
    "dies_talking": DiesTalking,
    "deaf": Deaf,
    "stubborn": Stubborn,
    "slow": Slow,
    "cancelled_permission": CancelledPermission,
    "floods_stderr": FloodsStderr,
    "half_line": HalfLine,
    "summarises": Summarises,
    "prepares": Prepares,
    "prints_at_the_end": PrintsAtTheEnd,
    "ends_silently": EndsSilently,
    "two_messages": TwoMessages,
    "silent": Silent,
    "reuses_ids": ReusesIds,
    "answers_twice": AnswersTwice,
    "unknown_call": UnknownCall,
    "huge": Huge,
    "asks": Asks,
    "cursor": Cursor,
    "qwen": Qwen,
    "models": Models,
    "login": Login,
    "notices": Notices,
}

if __name__ == "__main__":
    SCENARIOS[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else "").run()
