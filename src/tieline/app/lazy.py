"""Functions and classes whose modules are imported on the first call, to save start-up time and memory.

Only the composition root and the command line use this module. Type checkers and import contracts see a normal import:

    if TYPE_CHECKING:
        from tieline.app.build.page import build_page
    else:
        build_page = LazyImport("tieline.app.build.page", "build_page")
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any


class LazyImport:
    """Stands in for a function or class in another module. The module is imported on the first call."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.load()(*args, **kwargs)

    def load(self) -> Callable[..., Any]:
        """Import the module, if needed, and return the function or class."""
        found: Callable[..., Any] = getattr(import_module(self.module), self.name)
        return found
