"""Tests for requests that reach another replica than the one that holds their run."""

import pytest

from tests.cluster.support import CONVERSATIONS, cluster
from tieline.app.ids import tag_of

DIALECTS = pytest.mark.parametrize("dialect", list(CONVERSATIONS))


@DIALECTS
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_result_resumes_the_run_of_another_replica(postgres_url: str, dialect: str, stream: bool) -> None:
    async with cluster(postgres_url) as stand:
        first, second = stand.replicas
        talk = CONVERSATIONS[dialect](stand.client, stream=stream)
        assert tag_of(await talk.start(first.url)) == first.tag
        runs = stand.sim.runs
        assert await talk.finish(second.url) == "It is sunny."
        assert (stand.sim.runs, first.resumed, second.resumed) == (runs, 1, 0)


@DIALECTS
async def test_a_run_is_replayed_if_its_replica_is_gone(postgres_url: str, dialect: str) -> None:
    async with cluster(postgres_url) as stand:
        first, second = stand.replicas
        talk = CONVERSATIONS[dialect](stand.client)
        await talk.start(first.url)
        await first.cluster.aclose()
        await first.app.gateway.aclose()
        runs = stand.sim.runs
        assert await talk.finish(second.url) == "It is sunny."
        assert (stand.sim.runs, second.resumed) == (runs + 1, 0)
