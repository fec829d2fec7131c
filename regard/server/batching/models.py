"""Registry of served models by name, endpoint or languages."""

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
LONGEST_NAME = 200  # maximum number of characters of an unknown name in an error


class ModelRegistry:
    """Registry of served models by name or languages."""

    def __init__(self, models: Sequence[ServedModel], *, preload: bool = False) -> None:
        """Register models; with ``preload``, all of them are loaded at start, otherwise only the first."""
        names = [model.name for model in models]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(
                    f"two runs have the name {name}",
                    where="RUN",
                    help=f"choose other names: en-de={name} de-en=other/{name}",
                )
        self.by_name = {model.name: model for model in models}
        self.at_start = list(models) if preload else list(models)[:1]
        self.translators = [Translating(model) for model in models if "translate" in model.serves]
        self.generators = [Generating(model) for model in models if "generate" in model.serves]

    @property
    def all(self) -> list[ServedModel]:
        """All models, in the order of the command line."""
        return list(self.by_name.values())

    def get(self, name: str | None) -> ServedModel:
        """Return the model with this name, the first for None; raise ApiError 404 if it does not exist."""
        if name is None:
            return self.all[0]
        if name not in self.by_name:
            raise ApiError(404, f"The model {name[:LONGEST_NAME]!r} does not exist.")
        return self.by_name[name]

    def translator(self, name: str | None) -> Translating:
        """Return the translation model with this name, the first for None; raise ApiError 400 for another task."""
        return self._of(name, self.translators, "cannot translate")

    def generator(self, name: str | None) -> Generating:
        """Return the language model with this name, the first for None; raise ApiError 400 for another task."""
        return self._of(name, self.generators, "cannot generate text")

    def scorer(self, name: str | None) -> Translating | Generating:
        """Return the model with this name; for None, the first translation model, else the first language model."""
        scorers: list[Translating | Generating] = [*self.translators, *self.generators]
        return self._of(name, scorers, "cannot score text")

    def _of(self, name: str | None, views: Sequence[View], refusal: str) -> View:
        """Return the view of a model, the first for None; raise ApiError 400 for a model without such a view."""
        if name is None and views:
            return views[0]
        model = self.get(name)
        match = next((view for view in views if view.served is model), None)
        if match is None:
            raise ApiError(400, f"The model {model.name} {refusal}: its task is {model.task}. Use POST /v1/predict.")
        return match

    def into(self, target: str | None) -> list[Translating]:
        """Return the models that translate into a language, from any language."""
        return [model for model in self.translators if self._rank(model, None, target) is not None]

    def for_languages(self, source: str | None, target: str | None) -> Translating:
        """Return the model that matches the languages best, the first of several; None means any language.

        Order of preference: the same code, a code without region, another region, a model that names only one side. A
        model without languages is chosen by ``und``, or if it is the only model.

        Raises:
            ApiError: if no model matches, or only several models without languages.
        """
        ranked = [
            (rank, model) for model in self.translators if (rank := self._rank(model, source, target)) is not None
        ]
        if not ranked:
            raise ApiError(400, self._unsupported_message(source, target))
        best = max(rank for rank, _ in ranked)
        matching = [model for rank, model in ranked if rank == best]
        if len(matching) > 1 and not any(map(_names_languages, matching)):
            names = ", ".join(model.name for model in matching)
            raise ApiError(400, f"The languages of several models are not known; set model to one of: {names}.")
        return matching[0]

    def _rank(self, model: Translating, source: str | None, target: str | None) -> tuple[int, int] | None:
        """Return the ranks of target and source (see ``match_language``); None if the model does not match."""
        target_fit, source_fit = match_language(model.target, target), match_language(model.source, source)
        if target_fit is None or source_fit is None:
            return None
        nameless = model.source is None and model.target is None
        if nameless and len(self.translators) > 1 and UNDETERMINED not in (source, target):
            return None
        return target_fit, source_fit

    def _unsupported_message(self, source: str | None, target: str | None) -> str:
        """Return the error for an unsupported pair of languages, with the supported pairs."""
        models = self.translators
        if not models:
            served = ", ".join(f"{model.name} ({model.task})" for model in self.all)
            return f"This server has no translation model, only {served}. Use POST /v1/predict."
        pairs = {f"{model.source or 'any'} to {model.target or 'any'}" for model in models if _names_languages(model)}
        nameless = [model.name for model in models if not _names_languages(model)]
        known = [f"this server translates {', '.join(sorted(pairs))}"] if pairs else []
        by_name = [f"to use a model without known languages, set model to: {', '.join(nameless)}"] if nameless else []
        what = f"{source or 'any language'} to {target or 'any language'}"
        return f"{what} is not supported: {'; '.join([*known, *by_name])}."

    def stop(self) -> None:
        """Stop all models."""
        for model in self.all:
            model.stop()


def _names_languages(model: Translating) -> bool:
    """Return whether a language of the model is known."""
    return model.source is not None or model.target is not None
