"""JSON structures ("shapes") that OpenAI's APIs have in common, and the base class of all shapes."""

import msgspec


class Shape(msgspec.Struct, kw_only=True, gc=False):
    """The base class of all shapes. Shapes are short-lived and never part of a reference cycle, so `gc` is False."""


class ImageUrl(Shape):
    """An image, by its URL or as a data URL."""

    url: str | None = None
    detail: str | None = None


class FileRef(Shape):
    """A file: its content as a data URL, or the id of an uploaded file."""

    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None
