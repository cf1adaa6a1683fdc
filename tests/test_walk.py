"""How many source files take part in a request: `make walk` lists them."""

import json
import sys

import pytest

from tests.walk import LIMITS, WALKS, Function, Tracer, Walk, report
from tieline.wire.openai_chat import parse_request

CHAT = Function("frontends/chat.py", "serve")
GATEWAY = Function("core/legs/gateway.py", "start")
EVENTS = Function("model/events.py", "text")
ROUTING = Function("core/legs/routing.py", "find")


@pytest.mark.parametrize("name", WALKS)
def test_few_files_take_part_in_a_request(name: str) -> None:
    walk = WALKS[name]()
    assert len(walk.counted) <= LIMITS[name], report(name, walk)


def test_a_walk_counts_each_file_once_and_leaves_out_the_model() -> None:
    walk = Walk(((None, CHAT), (CHAT, GATEWAY), (GATEWAY, EVENTS), (GATEWAY, ROUTING), (CHAT, GATEWAY)))
    assert walk.files == [CHAT.file, GATEWAY.file, EVENTS.file, ROUTING.file]
    assert walk.counted == [CHAT.file, GATEWAY.file, ROUTING.file]
    assert (len(walk.functions), walk.switches) == (4, 4)
    assert not walk.backward_calls


def test_a_call_to_an_earlier_stage_is_reported() -> None:
    walk = Walk(((None, GATEWAY), (GATEWAY, CHAT), (GATEWAY, CHAT)))
    assert walk.backward_calls == {(GATEWAY, CHAT): 2}


def test_only_functions_of_the_gateway_are_recorded_with_their_callers() -> None:
    tracer = Tracer()
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hello"}]}).encode()
    sys.setprofile(tracer)
    try:
        json.loads(body)
        parse_request(body)
    finally:
        sys.setprofile(None)
    (caller, first), *others = tracer.walk().calls
    assert (caller, first.name) == (None, "parse_request")
    assert all(caller is not None for caller, _ in others)
    assert all(file.startswith(("wire/", "model/")) for file in tracer.walk().files)
