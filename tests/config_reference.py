"""Writes docs/reference/config.md from the config models: keys, types and defaults.

The meaning of a key is its field's description, otherwise the comment at or above it in the source, otherwise a line of
``MEANINGS``. A key without a meaning is an error, and so is an unused line of ``MEANINGS``.
"""

from __future__ import annotations

import ast
import inspect
import io
import tokenize
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from regard.attention.catalog import BUILDER_ARGUMENTS, MECHANISMS
from regard.config.chat import ChatConfig
from regard.config.settings import SearchConfig, TrainConfig
from regard.data.masking import MaskingConfig
from regard.data.reading import CorpusConfig
from regard.data.shared_files import FilesConfig
from regard.data.stream import TextConfig
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.models.attention_config import MechanismConfig, MixerConfig
from regard.models.causal_config import CausalModelConfig, CausalStackConfig
from regard.models.classifier_config import ClassifierModelConfig, TaggerModelConfig
from regard.models.configuration import ModelConfig
from regard.models.convolutional.config import ConvolutionalDecoderConfig, ConvolutionalEncoderConfig
from regard.models.graph.config import GraphNetConfig
from regard.models.lora_config import LoraConfig
from regard.models.masked_config import ContextMeanConfig, MaskedModelConfig
from regard.models.origin_config import EncoderStart, Origin, Started
from regard.models.position_config import LearnedConfig, RotaryConfig, ShawConfig, T5Config
from regard.models.presets import PRESETS
from regard.models.recurrent.config import CellConfig, RecurrentDecoderConfig, RecurrentEncoderConfig
from regard.models.transformer.config import TransformerDecoderConfig, TransformerEncoderConfig
from regard.runs.config import recipe_names
from regard.runs.run_config import TaskSection
from regard.tasks.classification.data_config import LabeledDataConfig
from regard.tasks.graph_run_config import GraphFilesConfig, NodeSplit
from regard.tasks.graphs.config import GraphsDataConfig, GraphsModelConfig
from regard.tasks.language_model.config import GenerateConfig, TextDataConfig
from regard.tasks.links.config import LinksDataConfig, LinksModelConfig
from regard.tasks.masked.config import FillConfig, MaskedDataConfig
from regard.tasks.next_item.config import RecommendConfig, SessionDataConfig
from regard.tasks.nodes.config import NodesDataConfig
from regard.tasks.tagging.config import TaggedDataConfig
from regard.tasks.translation.config import DataConfig, TranslationConfig

from .papers import linked

__all__ = ["PAGE", "meanings", "page", "setting_rows"]

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "config.md"

SHARED = """\
Encoder and decoder have their own keys, in the tables below. A key in this table is the default of each side that has
it: `model.width = 256` sets both, `model.decoder.width` one. Later files and `--set` override earlier ones. Earlier
spellings remain valid: `encoder_layers`, `decoder_layers`, `self_attention` (a mixer), `longest` (learned)."""
# The table in a file, the model that reads it, and the text above its keys. A table of several kinds has a
# section for each.
SECTIONS: tuple[tuple[str, type[BaseModel], str], ...] = (
    (
        "",
        TranslationConfig,
        "At the top of the file, before the first table. `extends` names a recipe or a file.",
    ),
    ("[data]", DataConfig, "Corpora, and how their text becomes numbers."),
    ("[[data.train]]", CorpusConfig, "One table a corpus; `[[data.valid]]` has the same keys."),
    ("[data.tokenizer]", TokenizerConfig, "`[data.source_tokenizer]` and `[data.target_tokenizer]` have the same."),
    ("[model]", ModelConfig, SHARED),
    ("[model.encoder]", TransformerEncoderConfig, "The default."),
    ("[model.encoder]", RecurrentEncoderConfig, "See [architectures](architectures.md)."),
    ("[model.encoder]", ConvolutionalEncoderConfig, "See [architectures](architectures.md)."),
    ("[model.decoder]", TransformerDecoderConfig, "The default."),
    ("[model.decoder]", RecurrentDecoderConfig, "See [architectures](architectures.md)."),
    ("[model.decoder]", ConvolutionalDecoderConfig, "See [architectures](architectures.md)."),
    ("[model.encoder.cell]", CellConfig, 'Of recurrent encoders and decoders. `cell = "gru"` alone is enough.'),
    (
        "[model.encoder.mixer]",
        MixerConfig,
        "Of a Transformer's encoder or decoder, in addition to the options of the mixer.",
    ),
    ("[model.decoder.cross_attention]", MechanismConfig, "In addition to the mechanism's options."),
    ("[model.position]", LearnedConfig, 'See [positions](positions.md). `position = "learned"` alone is enough.'),
    ("[model.position]", RotaryConfig, 'See [positions](positions.md). `position = "rotary"` alone is enough.'),
    ("[model.position]", T5Config, "See [positions](positions.md)."),
    ("[model.position]", ShawConfig, "See [shaw](mechanisms/shaw.md)."),
    ("[train]", TrainConfig, "Length of the training, optimizer, checkpoints, parallelism."),
    (
        "[search]",
        SearchConfig,
        "Search for outputs. All keys but `max_extra` and `batch_sentences` are also options of `regard translate` "
        "(`length_penalty`: `--length-penalty`), keywords of a model in Python, and fields of a request to a server.",
    ),
    (
        "[model.from]",
        Origin,
        'A run to start from; `from = "runs/book"` alone is enough. `model.encoder.from` has the same keys.',
    ),
    (
        "[model.lora]",
        LoraConfig,
        "Low-rank adapters of a run that starts from another one, see [LoRA](../how-to/fine-tune.md#lora).",
    ),
    ("[task]", TaskSection, 'The task; `task = "language-model"` alone is enough.'),
    ("[data] `language-model`", TextDataConfig, "Texts, and how they become tokens."),
    ("[[data.train]] `language-model`", TextConfig, "One table a text; `[[data.valid]]` has the same keys."),
    ("[model] `language-model`", CausalModelConfig, "Keys of the decoder are also valid here."),
    ("[model.decoder] `language-model`", CausalStackConfig, "The stack of layers."),
    (
        "[generate] `language-model`",
        GenerateConfig,
        "Generation of text. All keys but `nbest` are also options of `regard generate`, keywords of a model in Python "
        "and fields of a request to a server.",
    ),
    (
        "[chat]",
        ChatConfig,
        "Of `language-model`: the text form of conversations, for `regard generate --chat` and "
        "[chat completions](../how-to/serve.md#openais-chat-completions).",
    ),
    ("[data] `classification`", LabeledDataConfig, "Labeled texts, and how they become tokens and classes."),
    (
        "[[data.train]] `classification`, `tagging`, `next-item`, `graphs`",
        FilesConfig,
        "One table a corpus; `[[data.valid]]` has the same keys.",
    ),
    ("[model] `classification`", ClassifierModelConfig, "Keys of the encoder are also valid here."),
    ("[data] `tagging`", TaggedDataConfig, "Tagged sentences."),
    ("[model] `tagging`", TaggerModelConfig, "Keys of the encoder are also valid here."),
    (
        "[data] `next-item`",
        SessionDataConfig,
        "Sessions, and how their items become numbers. The model is as of `language-model`.",
    ),
    ("[recommend]", RecommendConfig, "Defaults for recommendations of next items."),
    ("[data] `nodes`", NodesDataConfig, "One graph, its labeled nodes, and the nodes of a batch."),
    (
        "[[data.train]] `nodes`",
        GraphFilesConfig,
        "The graph; `[[data.valid]]` has the same keys, and mostly the same graph.",
    ),
    ("[data.split] `nodes`", NodeSplit, "A split drawn by a seed."),
    ("[data] `links`", LinksDataConfig, "As of `nodes`, and which edges are held out."),
    ("[model] `links`", LinksModelConfig, "As of `nodes`, and how two nodes are compared."),
    ("[model] `nodes`", GraphNetConfig, "Layers over the nodes."),
    (
        "[data] `graphs`",
        GraphsDataConfig,
        "One graph per line, and further features of its nodes.",
    ),
    ("[model] `graphs`", GraphsModelConfig, "Layers over the nodes, and how they become one answer."),
    ("[data] `masked`", MaskedDataConfig, "Texts, what a text is, and how they become tokens."),
    ("[[data.train]] `masked`", TextConfig, "As of a language model; `[[data.valid]]` has the same keys."),
    ("[masking]", MaskingConfig, "Of `masked`: predicted positions, and their inputs."),
    ("[model] `masked`", MaskedModelConfig, "Keys of the encoder are also valid here."),
    ("[model.encoder] `context-mean`", ContextMeanConfig, "Of `masked`: the continuous bag of words."),
    ("[fill]", FillConfig, "Of `masked`: how gaps are filled."),
)

MEANINGS = {
    "format": "version of the config's format; a newer one is refused",
    "seed": "seed for initialization, data order, dropout and sampling",
    "data": "table, see below",
    "model": "table, see below",
    "train": "table, see below",
    "search": "table, see below",
    "task": "the task, see below",
    "task.kind": "`translation`, `language-model`, `masked`, `classification`, `tagging`, `next-item`, "
    "`nodes`, `links`, `graphs`, or "
    "`package.module:NAME`",
    "data.train": "one table a corpus, see below",
    "data.valid": "as `data.train`; without it the last checkpoint counts as the best",
    "data.tokenizer.k": "letters of a piece of kind `k-mer`, which overlap",
    "data.tokenizer.word_space": "put a space before each token of a tagged sentence, as imported models expect",
    "data.source_tokenizer": "of the source alone; needs `joint = false`",
    "data.target_tokenizer": "of the target alone; needs `joint = false`",
    "data.target_language": "as `source_language`; also picks sacreBLEU's tokenizer where the language has its own",
    "data.train.source": "a text file, or a `.tsv` or `.jsonl` with both sides; each may end in `.gz`",
    "data.train.target": "the other side, line by line; left out where `source` has both",
    "data.train.weight": "this corpus's part of a mixture of several",
    "data.train.source_key": "of JSON lines",
    "data.train.target_key": "of JSON lines",
    "data.train.header": "whether the first line of a TSV names its columns",
    "data.train.part": "the rows that a column assigns to a part: [`split`, `train`]; train, valid or test",
    "data.train.share": "the part of [0, 1) that a pair's source must hash into: holds out part of one file",
    "data.tokenizer.kind": "type of pieces; `pretokenized` splits at spaces, `listed` and `wordpiece` are imported",
    "data.tokenizer.library": "which library makes subwords",
    "data.tokenizer.size": "pieces, special ones included; unset: up to 8,000 subwords, or all pieces of the text",
    "data.tokenizer.lowercase": "before tokenization",
    "data.tokenizer.joiner": "the mark of a piece that continues in the next, such as `@@`; removed on decoding",
    "model.encoder": "table, see below",
    "model.decoder": "table, see below",
    "model.encoder.kind": "the kind of encoder",
    "model.encoder.mixer.kind": "a mechanism, see the table below: self-attention; or a mixer in its place",
    "model.decoder.cross_attention.kind": "a mechanism, see the table below",
    "model.encoder.cell.kind": "Elman's tanh, LSTM or GRU",
    "model.decoder.kind": "the kind of decoder",
    "model.position.kind": "the kind of position",
    "train.steps": "updates; the first of `steps`, `epochs`, `minutes` and `tokens` to be reached ends training",
    "train.epochs": "passes over the corpora",
    "train.minutes": "time of updates on this machine; planned by timing a few, adjusted during training",
    "train.tokens": "of the target, end symbols counted and padding not; turned into a number of updates once",
    "train.optimizer": "Adam, Adam with decoupled weight decay, Adadelta (Bahdanau 2015), plain SGD (Luong 2015), or "
    "Muon (Jordan 2024) for hidden matrices and `adamw` for the rest",
    "train.learning_rate": "the peak, default 1e-3; under `noam` a factor, default 1.0",
    "train.halve_after": "`halving`: updates before the rate is halved for the first time; default 0",
    "train.halve_every": "`halving`: updates after which it is halved again",
    "train.warmup": "updates until the peak; unset: 4,000, but at most a tenth of the planned updates",
    "train.betas": "Adam's decay of the two moments",
    "train.rho": "Adadelta's ρ, the decay of both its means",
    "train.momentum": "Muon's μ, default 0.95; only for Muon",
    "train.epsilon": "ε of Adam; default 1e-6 for Adadelta",
    "train.weight_decay": "`adam`: added to the gradient; `adamw` and `muon`: decoupled",
    "train.label_smoothing": "ε: the target has mass 1 − ε + ε/V, every other type ε/V",
    "train.clip_norm": "gradients are scaled down to this global norm",
    "train.save_every": "updates; unset: as `validate_every`",
    "train.best_by": "metric of the best checkpoint; all except `loss` decode the validation data greedily",
    "train.precision": "`auto` measures both once and uses the faster; float32 if bfloat16 is emulated",
    "train.threads": "of torch; unset: torch's choice, stored for resuming",
    "train.workers": "shards of an update computed in parallel, each with a part of the threads, on large CPUs",
    "train.deterministic": "only operations that torch calls deterministic",
}

WORDS = {int: "integer", float: "number", bool: "true, false", str: "text", Path: "path"}
BOUNDS: tuple[tuple[type, str, str], ...] = (
    (Gt, "gt", "> {}"), (Ge, "ge", "≥ {}"), (Lt, "lt", "< {}"), (Le, "le", "≤ {}"),
    (MinLen, "min_length", "at least {} long"),
)  # fmt: skip
# Arguments of a mechanism that its layer sets, not the config.
SIZES = {"self", *BUILDER_ARGUMENTS}


def page() -> str:
    """The whole of docs/reference/config.md."""
    unused, parts = set(MEANINGS), [_head()]
    for title, model, about in SECTIONS:
        prefix = title.partition(" ")[0].strip("[]")
        rows = setting_rows(model, prefix)
        unused -= {f"{prefix}.{name}".lstrip(".") for name in rows}
        several = sum(title == other for other, _, _ in SECTIONS) > 1
        kind = f", kind `{model.model_fields['kind'].default}`" if several else ""
        table, _, task = title.partition(" ")
        heading = f"## `{table}`{kind}{', task ' + task if task else ''}" if title else "## The top"
        parts.append(
            "\n".join([heading, "", about, "", *_table(["Key", "Type", "Default", "Meaning"], list(rows.values()))])
        )
    if unused:
        raise LookupError(f"no key needs the meanings of {', '.join(sorted(unused))}")
    return linked("\n\n".join([*parts, _presets(), _mechanisms()]) + "\n")


def setting_rows(model: type[BaseModel], prefix: str = "") -> dict[str, list[str]]:
    """The row of each key of a table, by name: key, type, default and meaning."""
    known, rows = meanings(model), {}
    for name, field in model.model_fields.items():
        key = f"{prefix}.{name}".lstrip(".")
        meaning = MEANINGS.get(key) or known.get(name)
        if not meaning:
            raise LookupError(f"{key} has no meaning: give its field a description, or MEANINGS a line")
        rows[name] = [f"`{name}`", _type(field), _default(field), _cell(meaning)]
    return rows


def meanings(model: type[BaseModel]) -> dict[str, str]:
    """The description of each field, or the comment at its line or directly above it in the source."""
    described_fields = {name: field.description for name, field in model.model_fields.items() if field.description}
    if described_fields.keys() == model.model_fields.keys():
        return described_fields
    for each in reversed(model.__mro__):
        if issubclass(each, BaseModel) and each not in (BaseModel, Started, *EncoderStart.__bases__):  # without source
            described_fields |= _own_meanings(each, model)
    return described_fields


def _own_meanings(kind: type[BaseModel], model: type[BaseModel]) -> dict[str, str]:
    source = inspect.getsource(kind)
    comments = {
        token.start[0]: (token.string.lstrip("# "), not token.line[: token.start[1]].strip())
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    described_fields = {}
    for node in ast.parse(source).body[0].body:  # type: ignore[attr-defined]
        name = node.target.id if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else ""
        if name not in model.model_fields:
            continue
        above, line = [], node.lineno - 1
        while line in comments and comments[line][1]:
            above.insert(0, comments[line][0])
            line -= 1
        same_line = [comments[node.end_lineno][0]] if node.end_lineno in comments else []
        described = model.model_fields[name].description
        if described or above or same_line:
            described_fields[name] = described or " ".join([*same_line, *above])
    return described_fields


def _head() -> str:
    return f"""\
# Every key of a config

This page is written by `scripts/config-reference` from the models that read a config, and a test keeps it current:
change the model, then run the script.

A config is a TOML file. `extends = "NAME"` extends another file or a recipe:

```text
{", ".join(recipe_names())}
```

Tables are merged key by key; other values are replaced. `--set key=value` on the command line overrides all files;
`--set key=` removes a key. An unknown key is an error with the file, the line and the nearest key. Each run folder
contains the resolved config with all defaults; *unset* keys are omitted, because TOML has no null."""


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows]]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").strip()


def _type(field: FieldInfo) -> str:
    names = [str(choice) for choice in _aliases(field) if choice != "learning_rate"]
    unit = (field.json_schema_extra or {}).get("unit") if not callable(field.json_schema_extra) else None
    spelled = _spell(field.annotation, field.metadata) + (f" ({unit})" if unit else "")
    return spelled + (f" (short: `{names[0]}`)" if names else "")


def _aliases(field: FieldInfo) -> list[Any]:
    return field.validation_alias.choices if isinstance(field.validation_alias, AliasChoices) else []


def _spell(kind: Any, metadata: Any = ()) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        limits = [each for part in inner[1:] for each in (part.metadata if isinstance(part, FieldInfo) else [part])]
        return _spell(inner[0], [*limits, *metadata])
    if origin is Literal:
        return ", ".join(f'`"{value}"`' if isinstance(value, str) else f"`{value}`" for value in inner)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_spell(each, metadata) for each in inner if each is not NoneType))
    if origin is tuple:
        if inner[-1] is Ellipsis:
            return f"list: {_spell(inner[0])}"
        return f"{len(inner)} × {_spell(inner[0])}"
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "table"
    bounds = [form.format(_power_of_ten(getattr(each, name))) for each in metadata for sort, name, form in BOUNDS
              if isinstance(each, sort)]  # fmt: skip
    return " ".join([WORDS[kind], ", ".join(dict.fromkeys(bounds))]).strip()


def _power_of_ten(bound: Any) -> str:
    """Spell a bound; large powers of ten by their exponents."""
    zeros = len(f"{bound}") - 1
    return f"10^{zeros}" if zeros > 5 and bound == 10**zeros else f"{bound}"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if value is PydanticUndefined:
        value = field.get_default(call_default_factory=True, validated_data={})
    if value is None:
        return "unset"
    if isinstance(value, BaseModel):
        kind = getattr(value, "kind", None)
        return f"`{_toml({'kind': kind})}`" if kind else "as below"
    return f"`{_toml(value)}`"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _presets() -> str:
    rows = [[f"`{name}`", ", ".join(f"`{key} = {_toml(value)}`" for key, value in sizes.items())]
            for name, sizes in PRESETS.items()]  # fmt: skip
    about = "`base` and `big` are those of Vaswani et al. 2017, Table 3."
    return "\n".join(["## Presets", "", about, "", *_table(["Preset", "Sizes"], rows)])


def _mechanisms() -> str:
    about = """\
`mixer` of a Transformer's sides and `cross_attention` of a decoder name a mechanism and give it options of its own:
`cross_attention = { kind = "additive", width = 64, heads = 1, project = [] }`. Heads come from the side."""
    rows = []
    for kind, mechanism in MECHANISMS.items():
        options = [each for each in inspect.signature(mechanism).parameters.values() if each.name not in SIZES]
        spelled = [
            f"`{each.name}`"
            + (
                " (required)"
                if each.default is each.empty
                else f" = {'unset' if each.default is None else each.default}"
            )
            for each in options
        ]
        file = PAGE.parent / "mechanisms" / f"{PAGES[kind]}.md"
        what = file.read_text(encoding="utf-8").partition("\n")[0].partition(": ")[2]
        rows.append([f"[{kind}](mechanisms/{file.name})", what, ", ".join(spelled) or "none"])
    return "\n".join(["## Mechanisms", "", about, "", *_table(["Kind", "Meaning", "Options"], rows)])


PAGES = {kind: mechanism.__module__.rpartition(".")[2] for kind, mechanism in MECHANISMS.items()}


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
