"""Blobs that are kept for the service."""

import hashlib
from base64 import b64decode

import pytest

from tieline.wire.cursor._pb.agent_pb2 import AgentClientMessage
from tieline.wire.cursor._pb.kv_pb2 import GetBlobResult, KvClientMessage, SetBlobResult
from tieline.wire.cursor.compressed import MIN_COMPRESSED, CompressedBytes
from tieline.wire.cursor.stored_state import Blobs, blob_id

ID = b"\x01" * 32


def test_the_id_of_a_blob_is_its_hash() -> None:
    assert blob_id(b"abc") == hashlib.sha256(b"abc").digest()
    assert blob_id(b"abc").hex().startswith("ba7816bf")
    assert len(blob_id(b"")) == 32


def test_what_was_set_is_given_back_and_what_was_not_is_missing() -> None:
    blobs = Blobs({ID: b"first"})
    assert blobs.get(ID) == b"first"
    assert blobs.get(b"\x02" * 32) is None
    assert blobs.set(b"\x02" * 32, b"second") is None
    assert blobs.get(b"\x02" * 32) == b"second"
    assert dict(blobs.items()) == {ID: b"first", b"\x02" * 32: b"second"}


def test_an_empty_blob_is_there() -> None:
    blobs = Blobs()
    assert blobs.set(ID, b"") is None
    assert blobs.get(ID) == b""


def test_an_id_that_is_no_hash_is_kept_like_any_other() -> None:
    """Seen in recordings: the client checks no id."""
    blobs = Blobs()
    assert blobs.set(b"odd", b"data") is None
    assert blobs.get(b"odd") == b"data"


def test_an_id_of_another_length_is_its_own_content() -> None:
    """Reported: the service names a small blob by its content at times."""
    assert Blobs().get(b'{"role":"user"}') == b'{"role":"user"}'
    assert Blobs().get(b"") is None


def test_what_a_run_begins_with_is_not_changed_by_it() -> None:
    initial = {ID: b"first"}
    blobs = Blobs(initial)
    blobs.set(ID, b"second")
    assert initial == {ID: b"first"}
    assert blobs.get(ID) == b"second"


def test_a_blob_that_is_too_large_is_refused_with_a_reason() -> None:
    blobs = Blobs(limit_each=4)
    reason = blobs.set(ID, b"12345")
    assert reason is not None
    assert "5 bytes" in reason
    assert blobs.get(ID) is None


def test_all_blobs_together_are_capped_and_the_rest_stays() -> None:
    blobs = Blobs(limit_total=1000)
    assert blobs.set(ID, b"x" * 500) is None
    assert blobs.set(b"\x02" * 32, b"x" * 500) is not None
    assert blobs.get(ID) == b"x" * 500
    assert blobs.set(ID, b"y" * 600) is None, "what is replaced makes room"
    assert blobs.get(ID) == b"y" * 600


@pytest.mark.parametrize("size", [0, 1])
def test_a_flood_of_tiny_blobs_is_capped_too(size: int) -> None:
    blobs = Blobs(limit_total=100_000)
    kept = sum(blobs.set(number.to_bytes(32), b"x" * size) is None for number in range(2000))
    assert 0 < kept < 1000
    assert blobs.size <= 100_000


def test_the_history_is_there_even_if_it_is_larger_than_the_cap() -> None:
    blobs = Blobs({ID: b"x" * 100}, limit_total=10)
    assert blobs.get(ID) == b"x" * 100
    assert blobs.set(b"\x02" * 32, b"") is not None


def test_what_was_put_away_is_found_and_takes_less() -> None:
    history = {number.to_bytes(32): b"some words " * 100 + bytes([number]) for number in range(50)}
    packed = CompressedBytes(b"".join(history.values()))
    before = packed.size
    packed.pack()
    assert packed.size < before / 10
    blobs = Blobs(history)
    size = blobs.size
    blobs.pack()
    assert blobs.size == size, "the caps count what the service has stored, however it is kept"
    assert blobs.set(ID, b"new") is None
    assert [blobs.get(blob_id) for blob_id in history] == [*history.values()]
    assert dict(blobs.items()) == {**history, ID: b"new"}


def test_blobs_may_be_put_away_again_and_again_and_replaced_meanwhile() -> None:
    blobs = Blobs({ID: b"a" * 5000})
    blobs.pack()
    assert blobs.set(b"\x02" * 32, b"b" * 5000) is None
    blobs.pack()
    blobs.pack()
    size = blobs.size
    assert blobs.set(ID, b"c" * 4000) is None
    assert blobs.size == size - 1000
    assert dict(blobs.items()) == {ID: b"c" * 4000, b"\x02" * 32: b"b" * 5000}
    assert blobs.get(b"\x03" * 32) is None


@pytest.mark.parametrize("size", [0, 1, MIN_COMPRESSED - 1, MIN_COMPRESSED, 100_000])
def test_packed_bytes_are_read_as_they_were(size: int) -> None:
    packed = CompressedBytes(b"x" * size)
    for _ in range(2):
        packed.pack()
        packed.pack()
        assert packed.read() == b"x" * size
        assert packed.read() == b"x" * size


PUBLISHED_ID = b64decode("BmMGyicTrLKMTPsWSOJK3yW9v+IZEbz5fWPE9RC5mNc=")


def test_an_id_as_it_was_published_is_a_hash_and_not_content() -> None:
    assert len(PUBLISHED_ID) == 32
    assert Blobs().get(PUBLISHED_ID) is None


@pytest.mark.parametrize(
    ("answer", "encoded"),
    [
        (KvClientMessage(id=1, set_blob_result=SetBlobResult()), "1a0408011a00"),
        (KvClientMessage(id=2, get_blob_result=GetBlobResult()), "1a0408021200"),
        (KvClientMessage(id=2, get_blob_result=GetBlobResult(blob_data=b"abc")), "1a09080212050a03616263"),
        (KvClientMessage(id=2, get_blob_result=GetBlobResult(blob_data=b"")), "1a06080212020a00"),
    ],
)
def test_the_answers_about_blobs_are_these_bytes(answer: KvClientMessage, encoded: str) -> None:
    """Derived vectors, and seen in recordings: an empty blob is told, a missing one is not."""
    assert AgentClientMessage(kv_client_message=answer).SerializeToString().hex() == encoded
