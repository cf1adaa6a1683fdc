"""Reads request bodies that are JSON objects of a known type."""

from typing import TypeVar

import msgspec

from tieline.frontends.http import Exchange
from tieline.model.errors import BadRequest

T = TypeVar("T")


async def read_body(exchange: Exchange, kind: type[T]) -> T:
    """Read the body of a request. If it is not a valid `kind`, raise a BadRequest that names the invalid field."""
    try:
        return msgspec.json.decode(await exchange.body() or b"{}", type=kind)
    except msgspec.ValidationError as error:
        complaint, _, place = str(error).partition(" - at `$.")
        param = place.removesuffix("`") or None
        raise BadRequest(f"`{param}`: {complaint}" if param else complaint, param) from error
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadRequest(f"the body is not valid JSON: {error}") from error
