"""How one upstream deviates from the protocol, and how one client wants its answer."""

from collections.abc import Callable, Mapping
from typing import Literal

from tieline.model.content import Value
from tieline.wire.openai_responses.names import OfferedTool


class Options(Value):
    """How one client wants its answer. `usage` has no effect here; all codecs have it."""

    created: int = 0
    arguments: Literal["buffered", "incremental"] = "incremental"
    usage: bool = True
    response_id: str = ""
    """The id of the response; if empty, the id that the upstream gave."""
    model: str = ""
    """The model of the response, if it begins before the upstream answers."""
    echo: bytes = b""
    """Members of the response that repeat the request, as JSON without braces (see `echo`)."""
    tools: Mapping[str, OfferedTool] = {}
    """The client's tools by their neutral name (see `names`)."""
    encrypted: bool = False
    """Whether reasoning items have `encrypted_content`, which the client sends back in its next request."""
    compaction: bool = False
    """Whether the text of the answer is a summary, and written as one compaction item (see `compaction`)."""
    now: Callable[[], float] | None = None
    """Returns the time, for `completed_at`; without it, that is `created`."""
