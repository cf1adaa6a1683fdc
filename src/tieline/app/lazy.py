"""Code that is loaded when it is first called: what a program does not use costs it neither time nor memory.

Whoever puts the program together names what is heavy and not always needed. The type checker and the import contracts
see an import as any other:

    if TYPE_CHECKING:
        from tieline.app.build.page import build_page
    else:
        build_page = Lazily("tieline.app.build.page", "build_page")
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any


class Lazily:
    """A function or a class by its place; to call it is to import its module."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.load()(*args, **kwargs)

    def load(self) -> Callable[..., Any]:
        """What stands there; the first time this takes a moment."""
        found: Callable[..., Any] = getattr(import_module(self.module), self.name)
        return found
