"""Import of a Marian model of ``transformers``, such as those of OPUS-MT, as a run that translates and serves."""

from __future__ import annotations

from pathlib import Path

import torch

from regard.core import atomic_files
from regard.errors import ModelError
from regard.runs.model_card import write_import_card
from regard.runs.run_folder import RunFolder
from regard.share.language_codes import language_code
from regard.share.marian_folder import (
    ACTIVATIONS,
    MarianLanguages,
    MarianModel,
    MarianSearch,
    read_settings,
    validation_as_model_error,
    weights_file,
)
from regard.share.marian_vocabulary import marian_tokenizer, vocabularies
from regard.share.marian_weights import load_marian_weights
from regard.tasks.translation.config import TranslationConfig
from regard.tasks.translation.write_run import plan_without_training, write_run


def import_marian(folder: Path, path: Path) -> RunFolder:
    """Import the Marian model of a folder as a run at ``path``, and return the run. A failure leaves nothing behind.

    Args:
        folder: the folder of the foreign model.
        path: the folder of the run.

    Raises:
        ModelError: the folder cannot be imported.
    """
    where = folder / "config.json"
    settings = read_settings(MarianModel, where)
    if (reason := settings.obstacle()) is not None:
        raise ModelError("this Marian model cannot be imported", where=str(where), why=reason)
    source, target = vocabularies(folder, settings)
    with validation_as_model_error(where):
        config = _config(folder, path.name, settings)
    model = load_marian_weights(weights_file(folder), config.model, settings, source, target)
    tokenizers = marian_tokenizer(folder / "source.spm", source), marian_tokenizer(folder / "target.spm", target)
    plan = plan_without_training(*tokenizers, threads=torch.get_num_threads())
    with atomic_files.publishing(path) as workshop:
        write_run(workshop, config, *tokenizers, dict(model.named_parameters()), plan=plan)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        write_import_card(
            RunFolder.open(workshop), parameters=parameters, source=f"MarianMTModel in {folder.name}", path=path
        )
    return RunFolder.open(path)


def _config(folder: Path, name: str, settings: MarianModel) -> TranslationConfig:
    """Return the config of the run. Positions include the end symbol, ``max_length`` does not."""
    generation, tokenizer = folder / "generation_config.json", folder / "tokenizer_config.json"
    search = read_settings(MarianSearch, generation if generation.is_file() else folder / "config.json")
    languages = read_settings(MarianLanguages, tokenizer) if tokenizer.is_file() else MarianLanguages()
    longest, tied = settings.max_position_embeddings, settings.tie_word_embeddings
    model = {
        "encoder": {"layers": settings.encoder_layers},
        "decoder": {"layers": settings.decoder_layers},
        "width": settings.d_model,
        "feed_forward": settings.encoder_ffn_dim,
        "heads": settings.encoder_attention_heads,
        "activation": ACTIVATIONS[settings.activation_function],
        "dropout": settings.dropout,
        "attention_bias": True,
        "output_bias": True,
        "share": "none" if not tied else "all" if settings.share_encoder_decoder_embeddings else "target",
    }
    data = {
        "train": [],
        "joint": False,
        "tokenizer": {"kind": "listed"},
        "source_language": language_code(languages.source_lang),
        "target_language": language_code(languages.target_lang),
        "max_length": longest - 1,  # without the end symbol
    }
    # transformers ranks by log P / |Y|^α.
    run_search = {"beam": search.num_beams, "length_penalty": search.penalty(), "length_offset": 0.0}
    run_search |= {"early_stopping": search.early_stopping is True, "max_length": longest}
    values = {"name": name, "data": data, "model": model, "search": run_search}
    return TranslationConfig.model_validate(values)
