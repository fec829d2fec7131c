"""Served models, found by name, by endpoint or by languages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from regard.errors import ConfigError
from regard.server.api_error import ApiError
from regard.server.batching.generating import Generating
from regard.server.batching.served import ServedModel
from regard.server.batching.translating import Translating
from regard.server.text.languages import UNDETERMINED, match_language

View = TypeVar("View", bound=Translating | Generating)
LONGEST_NAME = 200  # characters of an unknown model's name that are repeated in a message


class ModelRegistry:
    """Served models, found by name or by languages."""

    def __init__(self, models: Sequence[ServedModel], *, preload: bool = False) -> None:
        """Register models; ``preload``: all of them are loaded when the server starts, not the first alone."""
        names = [model.name for model in models]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(
                    f"two runs are named {name}", where="RUN", help=f"name them: en-de={name} de-en=other/{name}"
                )
        self.by_name = {model.name: model for model in models}
        self.at_start = list(models) if preload else list(models)[:1]
        self.translators = [Translating(model) for model in models if "translate" in model.serves]
        self.generators = [Generating(model) for model in models if "generate" in model.serves]

    @property
    def all(self) -> list[ServedModel]:
        """All models, in order of the command line."""
        return list(self.by_name.values())

    def get(self, name: str | None) -> ServedModel:
        """Return the model of this name, the first for None. ApiError 404 if there is none."""
        if name is None:
            return self.all[0]
        if name not in self.by_name:
            raise ApiError(404, f"There is no model {name[:LONGEST_NAME]!r}.")
        return self.by_name[name]

    def translator(self, name: str | None) -> Translating:
        """Return the translation model of this name, the first for None. ApiError 400 for one of another task."""
        return self._of(name, self.translators, "does not translate")

    def generator(self, name: str | None) -> Generating:
        """Return the language model of this name, the first for None. ApiError 400 for one of another task."""
        return self._of(name, self.generators, "generates no text")

    def scorer(self, name: str | None) -> Translating | Generating:
        """Return the model of this name; for None, the first that translates, or else the first language model."""
        scorers: list[Translating | Generating] = [*self.translators, *self.generators]
        return self._of(name, scorers, "scores no text")

    def _of(self, name: str | None, views: Sequence[View], refusal: str) -> View:
        """Return the view of a model, the first for None. ApiError 400 for a model without one."""
        if name is None and views:
            return views[0]
        model = self.get(name)
        found = next((view for view in views if view.served is model), None)
        if found is None:
            raise ApiError(400, f"The model {model.name} {refusal}: it is a {model.task}; POST /v1/predict.")
        return found

    def into(self, target: str | None) -> list[Translating]:
        """Return the models that translate into a language, from any language."""
        return [model for model in self.translators if self._rank(model, None, target) is not None]

    def for_languages(self, source: str | None, target: str | None) -> Translating:
        """Return the model that matches the languages best, the first of several; None stands for any language.

        The same code wins, then a code without region, then another region, then a model that names one side only. A
        model that names neither is chosen as ``und``, or if it is the only one. ApiError if none matches, or several
        models that name no languages.
        """
        ranked = [
            (rank, model) for model in self.translators if (rank := self._rank(model, source, target)) is not None
        ]
        if not ranked:
            raise ApiError(400, self._unsupported_message(source, target))
        best = max(rank for rank, _ in ranked)
        first, *others = (model for rank, model in ranked if rank == best)
        if others and not any(map(_names_languages, (first, *others))):
            names = ", ".join(model.name for model in (first, *others))
            raise ApiError(400, f"Several models here name no languages; ask for one by its name, as model: {names}.")
        return first

    def _rank(self, model: Translating, source: str | None, target: str | None) -> tuple[int, int] | None:
        """Return how well the target and the source match (``match_language``); None if the model does not match."""
        target_fit, source_fit = match_language(model.target, target), match_language(model.source, source)
        if target_fit is None or source_fit is None:
            return None
        nameless = model.source is None and model.target is None
        if nameless and len(self.translators) > 1 and UNDETERMINED not in (source, target):
            return None
        return target_fit, source_fit

    def _unsupported_message(self, source: str | None, target: str | None) -> str:
        """Return a message with the unsupported pair and the supported ones."""
        models = self.translators
        if not models:
            served = ", ".join(f"{model.name} is a {model.task}" for model in self.all)
            return f"No model here translates: {served}; POST /v1/predict."
        pairs = {f"{model.source or 'any'} to {model.target or 'any'}" for model in models if _names_languages(model)}
        others = [model.name for model in models if not _names_languages(model)]
        known = [f"this server does {', '.join(sorted(pairs))}"] if pairs else []
        by_name = [f"a model that names no languages is asked for as model: {', '.join(others)}"] if others else []
        what = f"{source or 'any language'} to {target or 'any language'}"
        return f"{what} is not supported: {'; '.join([*known, *by_name])}."

    def stop(self) -> None:
        """Stop all models."""
        for model in self.all:
            model.stop()


def _names_languages(model: Translating) -> bool:
    """Return whether the model's config names a language."""
    return model.source is not None or model.target is not None
