"""Decoders of a language model: its fast form where there is one, or the model itself."""

from __future__ import annotations

from regard.attention.positions.absolute import NoPosition
from regard.engine.language_model import FastLanguageModel
from regard.engine.language_model import obstacle as fast_obstacle
from regard.engine.native_language_model import NativeLanguageModel, obstacle
from regard.inference.decoding import Engine, Wanted, kernels_missing, possible, torch_dtype
from regard.models.input import TokenInput
from regard.models.language_model import LanguageModel


def causal_decoder(model: LanguageModel, engine: Engine) -> LanguageModel | FastLanguageModel | NativeLanguageModel:
    """``start`` and ``step`` of the model, made for one ``engine``; by the kernels in C where they know the model.

    ValueError for 8 bits without the kernels.
    """
    if engine == "reference":
        return model
    if engine == "int8" or (engine == "float32" and native_obstacle(model) is None):
        return NativeLanguageModel(model, format=engine)
    return FastLanguageModel(model, dtype=torch_dtype(engine))


def possible_engine(model: LanguageModel, engine: Wanted | None) -> Engine:
    """Return the requested engine, or the fastest exact one; raises ConfigError if the model has no such form."""
    return possible(engine, fast_obstacle(model), native_obstacle(model))


def native_obstacle(model: LanguageModel) -> str | None:
    """The reason why the kernels in C do not compute this model; None if they do."""
    return kernels_missing(model.head.weight) or obstacle(model)


def forgets(model: LanguageModel) -> bool:
    """Whether the model reads on without end: each layer looks back a limited way, and positions are relative."""
    if not isinstance(model.embedding, TokenInput) or type(model.embedding.position) is not NoPosition:
        return False
    return all(getattr(layer.mixer, "back", None) is not None for layer in model.stack)
