"""Training for an export: settings with which a run can leave to a format, and the check before training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from regard.config.toml_layers import TomlLayer, merge, parse_override
from regard.core.export_forms import CausalForm, EncoderForm, ForwardForm, PairForm
from regard.errors import ConfigError
from regard.runs.config import load_config
from regard.runs.run_config import Proposal
from regard.share.ctranslate2 import ACTIVATIONS
from regard.share.encoder_format import TRANSFORMER, reasons_against
from regard.share.export_format import ExportFormat, export_format

PLAIN = ("qk_norm", "context_norm", "attention_gate", "zero_output", "embedding_residual", "value_embedding")
ONNX = {"wide": "model.wide=false", "affixes": "model.affixes=0"}
PRESET = "small"  # of the Transformer that replaces another encoder
TOKENIZER = "byte-bpe"  # supported by every format that reads text


def require_exportable(name: str, config: Any) -> None:
    """Raise ConfigError with all obstacles if a run of this config cannot be exported to the format ``name``."""
    format = export_format(name, config, f"--for {name}")
    if obstacles := format.obstacles(config):
        raise ConfigError(
            f"a run of this config cannot be exported to {name}", where=f"--for {name}", why="; ".join(obstacles),
            help=f"change these settings, or omit --for {name}",
        )  # fmt: skip


def fitted(name: str, proposal: Proposal, overrides: Sequence[str]) -> Proposal:
    """Return an automatically chosen config with the settings that the format ``name`` needs; the user's stay."""
    config: Any = load_config(proposal.config, overrides)
    format = export_format(name, config, f"--for {name}")
    changes = [*dict.fromkeys(_changes(format, name, config))]
    if not format.obstacles(config) or not changes:
        return proposal
    tables = dict(proposal.config)
    if format.form is EncoderForm and config.model.encoder.kind != "transformer":
        tables["model"] = {"preset": PRESET}
    tables = merge([TomlLayer(name, tables, {})], map(parse_override, changes))
    return Proposal(tables, [*proposal.reasons, f"for {name}: {', '.join(changes)}"])


def _changes(format: ExportFormat, name: str, config: Any) -> Iterator[str]:
    """Yield the settings that remove obstacles, KEY=VALUE."""
    if format.form is ForwardForm:
        yield from (setting for key, setting in ONNX.items() if getattr(config.model, key, False))
    elif format.form is EncoderForm:
        form = format.form_of(config)
        assert isinstance(form, EncoderForm)
        if config.model.encoder.kind != "transformer":
            yield from TRANSFORMER
        yield from (change for change in reasons_against(form, config).values() if change and ".kind=" not in change)
        if config.data.tokenizer.kind in ("bpe", "unigram", "k-mer"):
            yield f"data.tokenizer.kind={TOKENIZER}"
    elif format.form is CausalForm:
        yield "model.wide=false"
        yield from (f"model.{key}=false" for key in PLAIN if getattr(config.model.decoder, key))
        if name == "gguf":
            yield from ("model.normalization=rms", "model.activation=swiglu", "model.position=rotary", "model.norm=pre")
        if config.data.tokenizer.kind not in (("byte", "character", TOKENIZER) if name != "gguf" else (TOKENIZER,)):
            yield f"data.tokenizer.kind={TOKENIZER}"
    elif format.form is PairForm:
        yield from _pair_changes(name, config)


def _pair_changes(name: str, config: Any) -> Iterator[str]:
    """Yield the settings for a translation model."""
    model, marian = config.model, name == "marian"
    if model.copying:
        yield "model.copying=false"
    if name == "onnx":
        return
    yield from (
        f"model.{key}=false" for key in PLAIN if any(getattr(model, side).__dict__.get(key) for side in model.sides)
    )
    if any(getattr(model, side).kind == "transformer" for side in model.sides):
        kinds = ("sinusoidal",) if marian else ("sinusoidal", "learned")
        if any(getattr(model, side).position.kind not in kinds for side in model.sides):
            yield "model.position=sinusoidal"
    if any(getattr(getattr(model, side), "activation", "relu") not in ACTIVATIONS for side in model.sides):
        yield "model.activation=relu"
    if marian:
        yield "model.norm=post"
        if config.data.tokenizer.kind not in ("bpe", "unigram"):
            yield "data.tokenizer.kind=bpe"


class ExportTarget:
    """A format that a run of training shall be exported to: see ``tasks.find_config.Target``."""

    def __init__(self, name: str) -> None:
        self.name = name

    def fit(self, proposal: Proposal, overrides: Sequence[str]) -> Proposal:
        return fitted(self.name, proposal, overrides)

    def require(self, config: Any) -> None:
        require_exportable(self.name, config)
