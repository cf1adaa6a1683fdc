"""Tests for the ids that a process mints: they name the process, cannot be guessed, and suit every dialect."""

import re

from tieline.app.ids import Ids, new_tag, tag_of
from tieline.wire.shared.spelling import plain_id, restore_id, short_id

SHORTEST_LIMIT = 64
"""The lowest limit on the length of call ids among all dialects: OpenAI's, and that of Cursor's editor."""


def test_every_id_that_a_client_sends_back_names_the_process_that_minted_it() -> None:
    ids = Ids("Ab3x")
    for identity in (ids.call(), ids.document("resp"), ids.document("conv"), ids.inbox_item()):
        assert tag_of(identity) == "Ab3x"


def test_the_id_of_an_item_names_the_process_of_its_response() -> None:
    response_id = Ids("Ab3x").document("resp")
    assert tag_of(f"fc_{response_id.removeprefix('resp_')}_0") == "Ab3x"


def test_no_dialect_changes_the_spelling_of_a_call_id() -> None:
    for _ in range(100):
        call_id = Ids().call()
        assert re.fullmatch("call_[A-Za-z0-9]{26}", call_id)
        assert plain_id(call_id) == restore_id(call_id) == short_id(call_id, SHORTEST_LIMIT) == call_id


def test_ids_are_random_apart_from_their_tag() -> None:
    ids = Ids("Ab3x")
    for mint in (ids.call, ids.inbox_item, lambda: ids.document("resp")):
        assert len({mint() for _ in range(1000)}) == 1000


def test_each_process_has_a_tag_of_its_own() -> None:
    tags = {new_tag() for _ in range(100)}
    assert len(tags) > 95  # of 14.7 million
    assert all(re.fullmatch("[A-Za-z0-9]{4}", tag) for tag in tags)
