"""Traffic records of requests that continue a stored response."""

from tests.catalogue.serving import serving


async def test_a_short_request_that_continues_a_long_conversation_counts_with_its_history() -> None:
    # The size of all records is bounded. If short requests counted as small, 500 long conversations would be kept.
    first = {"model": "demo/scripted", "input": "hello " * 40_000}
    async with serving() as stand:
        response = (await stand.http.post("/v1/responses", json=first)).json()
        for _ in range(60):
            more = {"model": "demo/scripted", "input": "hi", "previous_response_id": response["id"], "store": False}
            answer = await stand.http.post("/v1/responses", json=more)
            assert answer.status_code == 200
        assert 40 <= len(stand.app.gateway.bus.legs()) < 60
