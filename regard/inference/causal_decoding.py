"""Decoders of a language model: its fast form where there is one, or the model itself."""

from __future__ import annotations

from regard.attention.positions.absolute import NoPosition
from regard.engine.language_model import FastLanguageModel
from regard.inference.decoding import Engine, number_format
from regard.models.input import TokenInput
from regard.models.language_model import LanguageModel

__all__ = ["causal_decoder", "forgets"]


def causal_decoder(model: LanguageModel, engine: Engine) -> LanguageModel | FastLanguageModel:
    """``start`` and ``step`` of the model, made for one ``engine``."""
    if engine == "reference":
        return model
    dtype, format = number_format(engine)
    return FastLanguageModel(model, dtype=dtype, format=format)


def forgets(model: LanguageModel) -> bool:
    """Whether the model reads on without end: each layer looks back a limited way, and positions are relative."""
    if not isinstance(model.embedding, TokenInput) or type(model.embedding.position) is not NoPosition:
        return False
    return all(getattr(layer.mixer, "back", None) is not None for layer in model.stack)
