"""Construction of Transformer stacks from their configs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch import nn

from regard.attention.heads import SelfAttention
from regard.attention.mask import Causal, Mask, Padding
from regard.errors import ConfigError
from regard.models.causal_config import CausalStackConfig
from regard.models.execution import EXECUTIONS
from regard.models.head import Head
from regard.models.input import Input
from regard.models.language_model import LanguageModel
from regard.models.parts import absolute_position, reader
from regard.models.transformer.config import TransformerDecoderConfig, TransformerEncoderConfig, TransformerStackConfig
from regard.models.transformer.feed_forward import FeedForward, GatedFeedForward, feed_forward
from regard.models.transformer.layer import TransformerLayer
from regard.models.transformer.mixers import build_mixer
from regard.models.transformer.norms import PostNorm, PreNorm, Residual, StreamNorm, normalization
from regard.models.transformer.site import MixerSite, mixer_site
from regard.models.transformer.transformer import TransformerDecoder, TransformerEncoder

Part = TypeVar("Part", bound=nn.Module)


def encoder(config: TransformerEncoderConfig, input: Input) -> TransformerEncoder:
    mask = Causal() & Padding() if config.causal else Padding()
    site = mixer_site(config, mask, where="model.encoder", causal=config.causal)
    everywhere = site if config.global_every is None else _global_site(config, mask)
    sites = [everywhere if number % (config.global_every or 1) == 0 else site for number in range(config.layers)]
    layers = [_layer(config, own._replace(layer=number)) for number, own in enumerate(sites)]
    if not config.first_norm:
        layers[0].around_mixer.norm = nn.Identity()
    _configure(config, input, layers, where="model.encoder", scale=config.embedding_scale)
    _extend(config, input)
    return _initial(TransformerEncoder(input, layers, _last_norm(config), EXECUTIONS[config.execution]()), config)


def decoder(config: TransformerDecoderConfig, input: Input, *, states: int, summary: int) -> TransformerDecoder:
    site = mixer_site(config, Causal() & Padding(), where="model.decoder", causal=True)
    layers = [_decoder_layer(config, site._replace(layer=n), states) for n in range(config.layers)]
    _configure(config, input, layers, where="model.decoder")
    return _initial(TransformerDecoder(input, layers, _last_norm(config), EXECUTIONS[config.execution]()), config)


def language_model(config: CausalStackConfig, input: Input, head: Head) -> LanguageModel:
    """Build a decoder without a source: layers of a causal mixer and a feed-forward."""
    site = mixer_site(config, Causal() & Padding(), where="model.decoder", causal=True)._replace(together=True)
    layers = [_layer(config, site._replace(layer=number)) for number in range(config.layers)]
    _configure(config, input, layers, where="model.decoder", scale=config.embedding_scale)
    execution = EXECUTIONS[config.execution]()
    return _initial(LanguageModel(input, layers, _last_norm(config), head, execution), config)


def _configure(
    config: TransformerStackConfig,
    input: Input,
    layers: list[TransformerLayer],
    *,
    where: str,
    scale: float | None = None,
) -> None:
    """Set the positions of the input, and add the table of value embeddings that all layers share, if any."""
    mixer = layers[0].mixer
    if config.value_embedding and isinstance(mixer, SelfAttention):
        try:
            input.add_values(mixer.attention.key_heads * mixer.attention.value_width)
        except ValueError as problem:
            help = f"--set {where}.value_embedding=false"
            raise ConfigError(
                "value embeddings are not available for this input",
                where=f"{where}.value_embedding",
                why=str(problem),
                help=help,
            ) from problem
    input.configure(absolute_position(config.position, input.width), dropout=config.dropout, scale=scale)


def _global_site(config: TransformerEncoderConfig, mask: Mask) -> MixerSite:
    """Return the site of the mixers that attend to all positions."""
    mixer, position = config.mixer.model_copy(update={"neighborhood": None, "sinks": None}), config.position
    if config.global_base is not None:
        position = position.model_copy(update={"base": config.global_base})
    whole = config.model_copy(update={"mixer": mixer, "position": position})
    return mixer_site(whole, mask, where="model.encoder", causal=config.causal)


def _extend(config: TransformerEncoderConfig, input: Input) -> None:
    """Add the norm, the segments and the token dropout of the embeddings."""
    if config.embedding_norm:
        input.add_norm(normalization(config.normalization, config.width, epsilon=config.normalization_epsilon))
    options: dict[str, Callable[[], None]] = {
        "segments": lambda: input.add_segments(config.segments),
        "token_dropout": lambda: input.drop_tokens(config.token_dropout),
    }
    if not config.reads_end:
        options["reads_end"] = input.hide_end
    for key, add in options.items():
        if getattr(config, key) or key == "reads_end":
            try:
                add()
            except ValueError as problem:
                where, what = f"model.encoder.{key}", f"`{key}` is not available for this input"
                raise ConfigError(what, where=where, why=str(problem), help=f"omit {where}") from problem


def _layer(config: TransformerStackConfig, site: MixerSite) -> TransformerLayer:
    frames = (_frame(config), _frame(config))
    return TransformerLayer(build_mixer(site), None, _feed_forward(config), frames, **_layer_options(config))


def _layer_options(config: TransformerStackConfig) -> dict[str, Any]:
    return {"embedding_residual": config.embedding_residual, "feed_forward_chunks": config.feed_forward_chunks}


def _decoder_layer(config: TransformerDecoderConfig, site: MixerSite, states: int) -> TransformerLayer:
    frames = (_frame(config), _frame(config), _frame(config))
    width = config.width
    read = reader(config, config.cross_attention, width=width, memory_width=states, output_width=width)
    return TransformerLayer(build_mixer(site), read, _feed_forward(config), frames, **_layer_options(config))


def _feed_forward(config: TransformerStackConfig) -> FeedForward | GatedFeedForward:
    return feed_forward(config.activation, config.width, config.feed_forward, dropout=config.feed_forward_dropout)


def _frame(config: TransformerStackConfig) -> Residual:
    frames = {"post": PostNorm, "pre": StreamNorm if config.execution == "reversible" else PreNorm}
    frame = frames[config.norm]
    epsilon = config.normalization_epsilon
    return frame(config.width, dropout=config.dropout, kind=config.normalization, epsilon=epsilon)


def _last_norm(config: TransformerStackConfig) -> nn.Module:
    if config.norm == "post":
        return nn.Identity()
    return normalization(config.normalization, config.width, epsilon=config.normalization_epsilon)


def _initial(part: Part, config: TransformerStackConfig) -> Part:
    """Return the module with biases 0 and matrices Glorot-uniform, as in the paper's code, or N(0, std²), as in BERT.

    With ``zero_output`` every branch of a layer initially adds nothing (Zhang et al. 2019, Fixup, §3).
    """
    for module in part.modules():
        if isinstance(module, nn.Linear):
            if config.init_std is None:
                nn.init.xavier_uniform_(module.weight)
            else:
                nn.init.normal_(module.weight, std=config.init_std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    if config.zero_output:
        for name, module in part.named_modules():
            if isinstance(module, nn.Linear) and name.rpartition(".")[2] in ("output", "down"):
                nn.init.zeros_(module.weight)
    return part
