"""The table of core/legs/resume.py, row by row."""

from dataclasses import dataclass, field

from tests.cases import PIXEL, says
from tests.each import each
from tieline.core.history.tidy import INTERRUPTED
from tieline.core.legs.parking import ParkedRun
from tieline.core.legs.resume import ResumeDecision, decide
from tieline.model.content import Image, Message, Text, ToolCall, ToolResult
from tieline.model.ports import Leg


class Waiting:
    """A run that waits for results and does nothing else."""

    def __init__(self, *pending: str) -> None:
        self.pending = frozenset(pending)

    def leg(self) -> Leg:
        raise NotImplementedError

    async def answer(self, results: object, request: object = None, words: str = "") -> None:
        raise NotImplementedError

    async def aclose(self) -> None:
        raise NotImplementedError


ONE = ParkedRun(Waiting("call_1"), "live", "m")
TWO = ParkedRun(Waiting("call_2", "call_3"), "live", "m")
OTHER = ParkedRun(Waiting("call_9"), "live", "m")
LOT = {call_id: parked for parked in (ONE, TWO, OTHER) for call_id in parked.pending}


def call(*ids: str) -> Message:
    return says("assistant", *(ToolCall(id=call_id, name="read", arguments="{}") for call_id in ids))


def result(call_id: str, text: str = "fine") -> ToolResult:
    return ToolResult(call_id=call_id, content=(Text(text=text),))


def missing(call_id: str) -> ToolResult:
    return ToolResult(call_id=call_id, content=(Text(text=INTERRUPTED),), is_error=True)


@dataclass(frozen=True)
class Case:
    history: tuple[Message, ...]
    expected: ResumeDecision
    target: tuple[str, str] = field(default=("live", "m"))
    offers_tools: bool = True


GO = says("user", "go")
CASES = {
    "user text, nothing of this conversation": Case((GO,), ResumeDecision()),
    "all results": Case(
        (GO, call("call_1"), says("user", result("call_1"))), ResumeDecision(resume=ONE, results=(result("call_1"),))
    ),
    "all results, a message each and in another order": Case(
        (GO, call("call_2", "call_3"), says("user", result("call_3")), says("user", result("call_2"))),
        ResumeDecision(resume=TWO, results=(result("call_3"), result("call_2"))),
    ),
    "two results of one call: the last counts": Case(
        (GO, call("call_1"), says("user", result("call_1", "old"), result("call_1", "new"))),
        ResumeDecision(resume=ONE, results=(result("call_1", "new"),)),
    ),
    "some of the results": Case(
        (GO, call("call_2", "call_3"), says("user", result("call_3"))),
        ResumeDecision(resume=TWO, results=(missing("call_2"), result("call_3"))),
    ),
    "results and words": Case(
        (GO, call("call_1"), says("user", result("call_1"), "also do that"), says("user", " ", "now")),
        ResumeDecision(resume=ONE, results=(result("call_1"),), words="also do that\n\nnow"),
    ),
    "results and words, but no tools any more": Case(
        (GO, call("call_1"), says("user", result("call_1")), says("user", "Summarise this conversation.")),
        ResumeDecision(close=(ONE,)),
        offers_tools=False,
    ),
    "results without tools": Case(
        (GO, call("call_1"), says("user", result("call_1"))),
        ResumeDecision(resume=ONE, results=(result("call_1"),)),
        offers_tools=False,
    ),
    "results and a picture": Case(
        (GO, call("call_1"), says("user", result("call_1"), Image(media_type="image/png", data=PIXEL))),
        ResumeDecision(close=(ONE,)),
    ),
    "results of a run that is gone": Case((GO, call("call_0"), says("user", result("call_0"))), ResumeDecision()),
    "results for another model": Case(
        (GO, call("call_1"), says("user", result("call_1"))), ResumeDecision(close=(ONE,)), ("live", "other")
    ),
    "results for another backend": Case(
        (GO, call("call_1"), says("user", result("call_1"))), ResumeDecision(close=(ONE,)), ("plain", "m")
    ),
    "user text instead of a result": Case((GO, call("call_1"), says("user", "stop")), ResumeDecision(close=(ONE,))),
    "words after an answered call": Case(
        (GO, call("call_1"), says("user", result("call_1")), says("assistant", "Done."), says("user", "more")),
        ResumeDecision(close=(ONE,)),
    ),
    "results for one run, another left behind": Case(
        (GO, call("call_9"), says("user", "no"), call("call_1"), says("user", result("call_1"))),
        ResumeDecision(resume=ONE, results=(result("call_1"),), close=(OTHER,)),
    ),
    "a result nobody asked for": Case((GO, says("user", result("call_1"))), ResumeDecision()),
}


@each("case", CASES.values(), ids=CASES.keys())
def test_a_request_starts_or_resumes_as_the_table_says(case: Case) -> None:
    assert decide(case.history, *case.target, LOT, offers_tools=case.offers_tools) == case.expected
