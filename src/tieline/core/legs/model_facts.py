"""Adds facts that backends do not report about their models, from the configuration and a table of model families."""

import re
from collections.abc import Collection, Mapping
from fnmatch import translate

from msgspec.structs import replace

from tieline.model.ports import ModelFacts, ModelInfo


class FactTable:
    """A table of facts about models, by name. A name may be a pattern with `*`."""

    def __init__(self, rows: Mapping[str, ModelFacts] | None = None) -> None:
        given = rows or {}
        self._exact = {name: facts for name, facts in given.items() if not _is_pattern(name)}
        patterns = [name for name in given if _is_pattern(name)]
        # Most names are excluded by the beginning of a pattern, which is checked faster than the pattern itself.
        self._patterns = [(_beginning(name), re.compile(translate(name)), given[name]) for name in patterns]

    def find(self, name: str) -> ModelFacts:
        """Return the known facts about the model with this name.

        An exact name takes precedence over patterns, and an earlier pattern over a later one. A fact that is missing
        from one entry is taken from the next matching entry.
        """
        found = [
            facts
            for beginning, pattern, facts in reversed(self._patterns)
            if name.startswith(beginning) and pattern.match(name)
        ]
        if name in self._exact:
            found.append(self._exact[name])
        return ModelFacts(**{fact: value for facts in found for fact, value in facts.known().items()})


class ModelDescriptions:
    """Adds missing facts to the descriptions of models that backends report.

    The names in `configured` are full names or aliases; the names in `families` are upstreams' names for models. Facts
    from `families` apply only to the backends in `upstreams`, which may change later. Other backends may offer the same
    model with different limits.
    """

    def __init__(
        self,
        configured: FactTable | None = None,
        families: FactTable | None = None,
        upstreams: Collection[str] = (),
    ) -> None:
        self._configured = configured or FactTable()
        self._families = families or FactTable()
        self._upstreams = upstreams

    def complete(self, full_name: str, info: ModelInfo) -> ModelInfo:
        """Complete a description. Configured facts take precedence over `info`, and `info` over facts of the family."""
        if info.owner in self._upstreams:
            family = self._families.find(info.id.rpartition("/")[2].lower())
            info = replace(info, **{**family.known(), **info.known()})
        return self.under(full_name, info)

    def under(self, name: str, info: ModelInfo) -> ModelInfo:
        """Return `info`, with its facts replaced by those that are configured for `name`, a full name or an alias."""
        return replace(info, **self._configured.find(name).known())


def _is_pattern(name: str) -> bool:
    return _beginning(name) != name


def _beginning(pattern: str) -> str:
    """Return the part of a pattern before the first wildcard."""
    return re.split(r"[*?[]", pattern, maxsplit=1)[0]
