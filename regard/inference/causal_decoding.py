"""Decoders of language models: the fast form if it exists, otherwise the model itself."""

from __future__ import annotations

from regard.attention.positions.absolute import NoPosition
from regard.engine.language_model import FastLanguageModel
from regard.engine.language_model import obstacle as fast_obstacle
from regard.engine.native_language_model import NativeLanguageModel, obstacle
from regard.inference.decoding import Engine, RequestedEngine, kernels_missing, possible, torch_dtype
from regard.models.input import TokenInput
from regard.models.language_model import LanguageModel


def causal_decoder(model: LanguageModel, engine: Engine) -> LanguageModel | FastLanguageModel | NativeLanguageModel:
    """Return the model with ``start`` and ``step`` for one ``engine``; C kernels are used if they support the model.

    ValueError for int8 without the kernels.
    """
    if engine == "reference":
        return model
    if engine == "int8" or (engine == "float32" and native_obstacle(model) is None):
        return NativeLanguageModel(model, format=engine)
    return FastLanguageModel(model, dtype=torch_dtype(engine))


def possible_engine(model: LanguageModel, engine: RequestedEngine | None) -> Engine:
    """Return the requested engine, or the fastest exact one; raises ConfigError if the model does not support it."""
    return possible(engine, fast_obstacle(model), native_obstacle(model))


def native_obstacle(model: LanguageModel) -> str | None:
    """Return the reason why the C kernels do not support this model; None if they do."""
    return kernels_missing(model.head.weight) or obstacle(model)


def has_bounded_context(model: LanguageModel) -> bool:
    """Return whether the model can read without end: each layer has a limited history, and positions are relative."""
    if not isinstance(model.embedding, TokenInput) or type(model.embedding.position) is not NoPosition:
        return False
    return all(getattr(layer.mixer, "back", None) is not None for layer in model.stack)
