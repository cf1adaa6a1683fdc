"""Parse the outcome of a command from the client's output, and build typed results and stream events from it.

Every client reports the exit code in its own way: in a line before or after the output, in tags, in labels or in JSON.
A failed command is an ordinary result, not a failed call. Without an exit code, the command counts as successful
unless the client flags the call as an error.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from tieline.wire.cursor._pb import exec_kinds_pb2 as kinds
from tieline.wire.cursor._pb import shared_pb2 as shared
from tieline.wire.shared.file_text import COMMAND_HEAD, answers
from tieline.wire.shared.json import decode_any

CHUNK = 64 << 10
"""The maximum number of characters in one stream event."""
KILLED = 0xFFFFFFFF
"""The exit code of a command that was killed: -1 as an unsigned 32-bit number."""

_POLICY = kinds.SandboxPolicy(type=kinds.SandboxPolicy.TYPE_INSECURE_NONE)


class ShellOutcome(NamedTuple):
    """The outcome of a command.

    `code` is the exit code, or None if unknown. `session` is the client's name for a command that is still running in
    the background.
    """

    stdout: str
    stderr: str = ""
    code: int | None = None
    ending: Literal["exited", "timeout", "aborted", "running"] = "exited"
    session: str = ""


# ── Client output ────────────────────────────────────────────────────────────────────────────────

_CODES = ("exit_code", "exitCode", "returncode", "return_code", "code", "exit")
_SURE = frozenset(_CODES[:4])
_KNOWN = frozenset(
    [*_CODES, "stdout", "stderr", "output", "metadata", "success", "signal", "command", "cwd", "timed_out", "timedOut"]
)
_SILENCE = re.compile(
    r"\s*(?:\((?:Bash completed with )?no output\)|\(empty\)|\(none\)|Tool ran without output or errors"
    r"|Command (?:executed successfully|completed) with no output\.?)\s*",
    re.IGNORECASE,
)
_FOOT = re.compile(
    r"(?:\nExit Code: (?P<code>[^\n]*))?(?:\nSignal: (?P<signal>[^\n]*))?(?:\nBackground PIDs: [^\n]*)?"
    r"(?:\nProcess Group PGID: [^\n]*)?\s*\Z"
)
_FIRST = re.compile(
    r"\s*(?:Error: )?(?:Command (?:executed|failed)\b[^\n]{0,300}?)?\bExit code:? (?P<code>-?\d{1,10})\b[^\n]{0,40}"
    r"(?:\n+(?:Output:\n)?|\Z)",
    re.IGNORECASE,
)
_EXECUTED = re.compile(r"Command executed\b[^\n]{0,300}\n+(?:Output:\n)?")
_LAST = re.compile(
    r"(?:\A|\n+)[\[(]?(?:The )?(?:command |process )?(?:exited|completed|finished|failed|exit)(?: with)?(?: exit)? ?"
    r"(?:code|status):? ?(?P<code>-?\d{1,10})\.?[\])]?\s*\Z",
    re.IGNORECASE,
)
_NOTED_CODE = re.compile(
    r"^\W{0,4}(?:(?:the )?(?:command|process) )?exit(?:ed)?(?: with)?[ _]?(?:code|status)\W{1,4}"
    r"(?P<code>-?\d{1,10})\b",
    re.IGNORECASE | re.MULTILINE,
)
_TAGS = ("stdout", "stderr", "output", "exit_code", "returncode")
_TIMEOUT = re.compile(
    r"(?:command|process|tool)\b[^\n]{0,80}\b(?:timed out|exceed(?:ed|ing)(?: the)? timeout)", re.IGNORECASE
)
_ABORTED = re.compile(
    r"\[request interrupted by user|user aborted the command|command (?:was )?(?:aborted|cancel+ed|interrupted)"
    r"|tool execution aborted",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    r"(?:<error>|error: ?|\[)?(?:the )?(?:user|request|command|process|bash tool|tool execution)\b[^\n]{0,1000}\Z",
    re.IGNORECASE,
)
"""Matches a line that the client added to the output of the command."""
_RUNNING = re.compile(
    r"running in (?:the )?background with ID: (?P<a>[\w-]{1,64})|moved to the background \(ID: (?P<b>[\w-]{1,64})\)"
    r"|backgrounded by user with ID: (?P<c>[\w-]{1,64})|Process running with session ID:? (?P<d>[\w-]{1,64})",
    re.IGNORECASE,
)


def read(text: str) -> ShellOutcome:
    """Parse the outcome of a command from the text that the client returned."""
    ran = _from_answers(text) or _from_json(text) or _from_labels(text) or _from_tags(text) or _from_lines(text)
    if _SILENCE.fullmatch(ran.stdout):
        ran = ran._replace(stdout="")
    return ran


def _from_answers(text: str) -> ShellOutcome | None:
    """Parse the combined output of several commands. The exit code is 1 if any of them failed.

    Return None if the text is not such output.
    """
    found = answers(text)
    if not found:
        return None
    code = 0 if all(answer.success for answer in found) else 1
    return read("\n".join(answer.result for answer in found))._replace(code=code)


def _from_json(text: str) -> ShellOutcome | None:
    """Parse JSON that clearly describes the outcome.

    Return None for any other text, because the command may have printed it.
    """
    if not text.lstrip().startswith("{"):
        return None
    try:
        decoded = decode_any(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    if not isinstance(decoded, dict):
        return None
    inner = decoded.get("metadata")
    facts: Mapping[str, Any] = {**inner, **decoded} if isinstance(inner, dict) else decoded
    texts = {key: facts[key] for key in ("stdout", "stderr", "output") if isinstance(facts.get(key), str)}
    code = next((facts[key] for key in _CODES if type(facts.get(key)) is int), None)
    if not texts or (code is None and len(texts) < 2) or not (facts.keys() & _SURE or facts.keys() <= _KNOWN):
        return None
    is_late = facts.get("timed_out") is True or facts.get("timedOut") is True
    ran = ShellOutcome(texts.get("stdout", texts.get("output", "")), texts.get("stderr", ""), code)
    return ran._replace(ending="timeout") if is_late else ran


def _from_labels(text: str) -> ShellOutcome | None:
    head = COMMAND_HEAD.match(text)
    if head:
        code = re.search(r"(?:exit code:?|exited with code) (-?\d{1,10})", head[0], re.IGNORECASE)
        return _with_ending(ShellOutcome(text[head.end() :], code=int(code[1]) if code else None), head[0])
    begin = re.match(r"(?:Output|Stdout): ", text) or re.match(
        r"Command: (?:[^\n]*\n){1,200}?(?:Output|Stdout): ", text
    )
    foot = next((found for found in _FOOT.finditer(text, max(0, len(text) - 600)) if found[0].strip()), None)
    if begin is None or foot is None:
        return None
    body, _, error = text[begin.end() : foot.start()].partition("\nError: ")
    stdout, _, stderr = body.partition("\nStderr: ")
    stderr = "\n".join(filter(None, (_unless_none(stderr), _unless_none(error))))
    ran = ShellOutcome(_unless_none(stdout), stderr, _number(foot["code"]))
    return ran._replace(code=KILLED) if ran.code is None and _unless_none(foot["signal"]) else ran


def _from_tags(text: str) -> ShellOutcome | None:
    begin = text.lstrip()[:16]
    if not begin.startswith(tuple(f"<{tag}>" for tag in _TAGS)):
        return None
    sections = {tag: inner for tag in _TAGS if (inner := _inside(text, tag)) is not None}
    if sections.keys() <= {"output", "stderr"}:
        return None
    code = _number(sections.get("exit_code", sections.get("returncode")))
    return ShellOutcome(sections.get("stdout", sections.get("output", "")), sections.get("stderr", ""), code)


def _from_lines(text: str) -> ShellOutcome:
    """Parse plain output. A line before or after it, or notes in tags at its end, may describe the outcome."""
    text, notes = _without(text, "bash_metadata")
    ran = _between_lines(text)
    edges = (text.split("\n", 1)[0], text.rstrip().rsplit("\n", 1)[-1])
    ran = _with_ending(ran, "\n".join([notes, *filter(_ABOUT.match, edges)]))
    return _with_notes(ran, notes) if notes else ran


def _between_lines(text: str) -> ShellOutcome:
    """Parse the exit code in the first or last line of the output, and remove that line."""
    text, stderr = _without(text, "stderr")
    if first := _FIRST.match(text):
        return ShellOutcome(text[first.end() :], stderr, int(first["code"]))
    if last := _LAST.search(text, max(0, len(text) - 300)):
        return ShellOutcome(text[: last.start()], stderr, int(last["code"]))
    executed = _EXECUTED.match(text)
    return ShellOutcome(text[executed.end() :] if executed else text, stderr)


def _with_notes(ran: ShellOutcome, notes: str) -> ShellOutcome:
    """Set the exit code from the client's notes. Notes that cannot be parsed stay in the output for the model."""
    if code := _NOTED_CODE.search(notes):
        ran = ran._replace(code=int(code["code"]))
    known = (_NOTED_CODE, _TIMEOUT, _ABORTED, _RUNNING)
    kept = [line for line in notes.splitlines() if line.strip() and not any(form.search(line) for form in known)]
    if not kept:
        return ran
    return ran._replace(stdout="\n".join([ran.stdout, "", "<bash_metadata>", *kept, "</bash_metadata>"]))


def _with_ending(ran: ShellOutcome, words: str) -> ShellOutcome:
    running = _RUNNING.search(words)
    if running:
        return ran._replace(ending="running", session=next(filter(None, running.groups())))
    if _TIMEOUT.search(words):
        return ran._replace(ending="timeout")
    return ran._replace(ending="aborted") if _ABORTED.search(words) else ran


def _inside(text: str, tag: str) -> str | None:
    begin, end = text.find(f"<{tag}>"), text.rfind(f"</{tag}>")
    return text[begin + len(tag) + 2 : end].removeprefix("\n").removesuffix("\n") if 0 <= begin < end else None


def _without(text: str, tag: str) -> tuple[str, str]:
    """Split off the section in `tag` tags at the end of a text. Return the text before it and the section's content."""
    if not text[-40:].rstrip().endswith(f"</{tag}>"):
        return text, ""
    begin = text.rfind(f"<{tag}>")
    return (
        (text[:begin].removesuffix("\n").removesuffix("\n"), _inside(text[begin:], tag) or "")
        if begin >= 0
        else (text, "")
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"\s*-?\d{1,10}\s*", text) else None


def _unless_none(text: str | None) -> str:
    return "" if text is None or _SILENCE.fullmatch(text) else text


# ── Typed results ────────────────────────────────────────────────────────────────────────────────


class ShellCommand(NamedTuple):
    """A shell command that the service requested, its working directory, and how long it ran."""

    command: str
    directory: str
    millis: int = 0


def result(
    asked: ShellCommand, ran: ShellOutcome, *, shell_id: int = 0, interleaved: bool = False
) -> kinds.ShellResult:
    """Return the typed result of a command.

    `shell_id` identifies a command that is still running. If `interleaved` is true, the result also contains stdout and
    stderr combined in one text.
    """
    facts: dict[str, Any] = {
        "command": asked.command,
        "working_directory": asked.directory,
        "stdout": ran.stdout,
        "stderr": ran.stderr,
        "execution_time": asked.millis,
        "local_execution_time_ms": asked.millis,
    }
    if interleaved:
        facts["interleaved_output"] = ran.stdout + ran.stderr
    if ran.ending == "running":
        reason = shared.SHELL_BACKGROUND_REASON_TIMEOUT
        success = kinds.ShellSuccess(**facts, shell_id=shell_id, ms_to_wait=asked.millis, background_reason=reason)
        return kinds.ShellResult(success=success, sandbox_policy=_POLICY, is_background=True)
    if ran.ending != "exited":
        failure = kinds.ShellFailure(
            **facts, exit_code=-1, signal="SIGTERM", aborted=True, abort_reason=_abort_reason(ran)
        )
        return kinds.ShellResult(failure=failure, sandbox_policy=_POLICY)
    if ran.code:
        failure = kinds.ShellFailure(**facts, exit_code=_signed(ran.code))
        return kinds.ShellResult(failure=failure, sandbox_policy=_POLICY)
    return kinds.ShellResult(success=kinds.ShellSuccess(**facts), sandbox_policy=_POLICY)


def spawn_error(asked: ShellCommand, error: str) -> kinds.ShellResult:
    """Return the typed result of a command that could not be started."""
    failed = kinds.ShellSpawnError(command=asked.command, working_directory=asked.directory, error=error)
    return kinds.ShellResult(spawn_error=failed, sandbox_policy=_POLICY)


def stream(asked: ShellCommand, ran: ShellOutcome, *, shell_id: int = 0) -> list[kinds.ShellStream]:
    """Return the result of a command as stream events. `shell_id` identifies a command that is still running."""
    events = [kinds.ShellStream(start=kinds.ShellStreamStart(sandbox_policy=_POLICY))]
    events += [kinds.ShellStream(stdout=kinds.ShellStreamStdout(data=data)) for data in _chunks(ran.stdout)]
    events += [kinds.ShellStream(stderr=kinds.ShellStreamStderr(data=data)) for data in _chunks(ran.stderr)]
    if ran.ending == "running":
        backgrounded = kinds.ShellStreamBackgrounded(
            shell_id=shell_id,
            command=asked.command,
            working_directory=asked.directory,
            ms_to_wait=asked.millis,
            reason=shared.SHELL_BACKGROUND_REASON_TIMEOUT,
        )
        return [*events, kinds.ShellStream(backgrounded=backgrounded)]
    return [*events, kinds.ShellStream(exit=_exit(asked, ran))]


def rejected(asked: ShellCommand, reason: str) -> list[kinds.ShellStream]:
    """Return the stream events for a command that was refused."""
    refusal = kinds.ShellRejected(command=asked.command, working_directory=asked.directory, reason=reason)
    return [kinds.ShellStream(rejected=refusal), kinds.ShellStream(exit=_exit(asked, ShellOutcome("", code=1)))]


def _exit(asked: ShellCommand, ran: ShellOutcome) -> kinds.ShellStreamExit:
    end = kinds.ShellStreamExit(
        code=(ran.code or 0) & KILLED, cwd=asked.directory, local_execution_time_ms=asked.millis
    )
    if ran.ending != "exited":
        end.code, end.aborted, end.abort_reason = KILLED, True, _abort_reason(ran)
    return end


def _abort_reason(ran: ShellOutcome) -> shared.ShellAbortReason:
    return shared.SHELL_ABORT_REASON_TIMEOUT if ran.ending == "timeout" else shared.SHELL_ABORT_REASON_USER_ABORT


def _chunks(text: str) -> Sequence[str]:
    return [text[at : at + CHUNK] for at in range(0, len(text), CHUNK)]


def _signed(code: int) -> int:
    """Return an exit code as a signed 32-bit number."""
    return ((code + 0x80000000) & KILLED) - 0x80000000
