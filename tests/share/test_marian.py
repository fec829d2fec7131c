"""Marian models: ours as theirs and theirs as ours say the same, to plain torch and to transformers itself."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import safetensors.torch
import torch
from torch import Tensor

from regard.attention.span import Span
from regard.config.settings import SearchConfig
from regard.data.pairs import pad_sources
from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.subword import SentencePieceTokenizer
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD, UNKNOWN, Tokenizer, TokenizerConfig
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.encoder_decoder import EncoderDecoder
from regard.share import marian
from regard.share.import_marian import import_marian
from regard.share.parity import limit
from regard.tasks.translation.config import TranslationConfig
from regard.tasks.translation.translator import Translator, load

from .plain_marian import PlainMarian

ROOT = Path(__file__).parents[2]
SMALL: dict[str, Any] = {
    "encoder_layers": 2, "decoder_layers": 1, "width": 16, "heads": 2, "feed_forward": 24, "dropout": 0.0,
}  # fmt: skip
SAYABLE: dict[str, dict[str, Any]] = {
    "plain": {},
    "biases": {"attention_bias": True, "output_bias": True, "activation": "swish"},
    "two-vocabularies": {"share": "target", "activation": "gelu"},
    "none-shared": {"share": "none", "output_bias": True},
}
UNSAYABLE: list[tuple[dict[str, Any], str]] = [
    ({"norm": "pre"}, "pre-norm"),
    ({"normalization": "rms"}, "normalization is rms"),
    ({"position": "learned"}, "positions are learned"),
    ({"activation": "swiglu"}, "activation is swiglu"),
    ({"encoder": {"mixer": {"kind": "additive"}}}, "not the scaled dot product"),
]
WORDS = ["the", "cat", "sat", "on", "a", "mat", "dog", "runs", "over", "grass", "two", "three", "birds", "sing"]
GERMAN = ["die", "Katze", "saß", "auf", "einer", "Matte", "Hund", "läuft", "über", "Gras", "zwei", "drei", "Vögel"]
# What decides the model, as transformers has it; the vocabulary is that of ``vocabulary``.
THEIRS: dict[str, Any] = {
    "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "activation_function": "swish", "scale_embedding": True,
    "max_position_embeddings": 64, "eos_token_id": 0, "forced_eos_token_id": 0, "dropout": 0.1,
}  # fmt: skip


def lines(words: list[str], count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(words, k=draw.randint(1, 7))) for _ in range(count)]


def pieces_of(words: list[str], size: int = 60) -> SentencePieceTokenizer:
    found = train_tokenizer(lines(words, 300, 1), TokenizerConfig(kind="bpe", size=size))
    assert isinstance(found, SentencePieceTokenizer)
    return found


@pytest.fixture(scope="module")
def english() -> SentencePieceTokenizer:
    return pieces_of(WORDS)


@pytest.fixture(scope="module")
def german() -> SentencePieceTokenizer:
    return pieces_of(GERMAN, 70)


@torch.no_grad()
def sharp(model: EncoderDecoder) -> EncoderDecoder:
    for parameter in model.parameters():
        parameter.mul_(2.0).add_(0.1 * torch.randn_like(parameter))  # outputs differ, and no bias is 0
    return model.eval()


@pytest.fixture(scope="module")
def exported(
    tmp_path_factory: pytest.TempPathFactory, english: SentencePieceTokenizer, german: SentencePieceTokenizer
) -> dict[str, tuple[Path, Translator]]:
    """A folder and our model by name."""
    found = {}
    for name, shape in SAYABLE.items():
        torch.manual_seed(5)
        joint = shape.get("share", "all") == "all"
        source, target = english, english if joint else german
        config = TranslationConfig.model_validate({"data": {"train": [], "joint": joint}, "model": SMALL | shape})
        assert [*marian.obstacles(config.model), *marian.tokenizer_obstacles(source, target)] == []
        model = sharp(build(config.model, source_types=len(source), target_types=len(target)))
        folder = tmp_path_factory.mktemp("export") / name
        marian.write(model, config, source, target, folder)
        (folder / "regard.json").write_text(json.dumps(sources(source)))
        found[name] = folder, Translator(model, source, target, SearchConfig(), max_length=60)
    return found


def sources(tokenizer: Tokenizer) -> list[list[int]]:
    return [tokenizer.encode(line) for line in lines(WORDS, 12, 3)]


def vocabulary(own: list[SentencePieceTokenizer]) -> dict[str, int]:
    """The end first, pieces of all, a mark of a language; padding last as converters have it, or third."""
    pieces = list(dict.fromkeys(piece for each in own for piece in each.pieces(range(4, len(each)))))
    pieces = ["<pad>", *pieces, ">>deu<<"] if len(own) == 1 else [*pieces, ">>deu<<", "<pad>"]
    return {piece: number for number, piece in enumerate(["</s>", "<unk>", *pieces])}


@pytest.fixture(scope="module")
def foreign(
    tmp_path_factory: pytest.TempPathFactory, english: SentencePieceTokenizer, german: SentencePieceTokenizer
) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Folders of theirs without weights, and their configs."""
    both, own = vocabulary([english, german]), vocabulary([german])
    made: dict[str, Any] = {
        "shared": (both, None, {}),
        "two-vocabularies": (vocabulary([english]), own, {"share_encoder_decoder_embeddings": False}),
        "untied": (both, None, {"tie_word_embeddings": False, "activation_function": "relu"}),
    }
    found = {}
    for name, (source, target, options) in made.items():
        folder = tmp_path_factory.mktemp("theirs") / name
        folder.mkdir()
        (folder / "source.spm").write_bytes(english.model)
        (folder / "target.spm").write_bytes(german.model)
        (folder / "vocab.json").write_text(json.dumps(source))
        if target is not None:
            (folder / "target_vocab.json").write_text(json.dumps(target))
            options = {**options, "decoder_vocab_size": len(target)}
        pad = (source if target is None else target)["<pad>"]
        config = {**THEIRS, **options, "vocab_size": len(source), "pad_token_id": pad, "decoder_start_token_id": pad}
        if target is not None:  # the tokenizer reads the end and padding from the source's list
            rest = {"source_lang": "en", "target_lang": "de", "separate_vocabs": True}
            (folder / "tokenizer_config.json").write_text(json.dumps(rest | {"tokenizer_class": "MarianTokenizer"}))
        found[name] = folder, config
    return found


def write_plain(folder: Path, config: dict[str, Any], *, seed: int = 2) -> PlainMarian:
    """Weights that transformers did not write, under its names."""
    torch.manual_seed(seed)
    config = {"model_type": "marian", "share_encoder_decoder_embeddings": True, "tie_word_embeddings": True} | config
    config["decoder_vocab_size"] = config.get("decoder_vocab_size") or config["vocab_size"]
    (folder / "config.json").write_text(json.dumps(config))
    width, inner = config["d_model"], config["encoder_ffn_dim"]
    tensors: dict[str, Tensor] = {}
    for side, parts in (("encoder", ["self_attn"]), ("decoder", ["self_attn", "encoder_attn"])):
        for number in range(config[f"{side}_layers"]):
            layer = f"model.{side}.layers.{number}"
            for part in parts:
                tensors |= {
                    f"{layer}.{part}.{x}_proj.weight": torch.randn(width, width) / 2 for x in ("q", "k", "v", "out")
                }
                tensors |= {f"{layer}.{part}.{x}_proj.bias": torch.randn(width) / 2 for x in ("q", "k", "v", "out")}
            for norm in [*(f"{part}_layer_norm" for part in parts), "final_layer_norm"]:
                tensors |= {
                    f"{layer}.{norm}.weight": 1 + torch.randn(width) / 4,
                    f"{layer}.{norm}.bias": torch.randn(width),
                }
            tensors |= {f"{layer}.fc1.weight": torch.randn(inner, width) / 2, f"{layer}.fc1.bias": torch.randn(inner)}
            tensors |= {f"{layer}.fc2.weight": torch.randn(width, inner) / 2, f"{layer}.fc2.bias": torch.randn(width)}
    tables = {"model.shared": "vocab_size"}
    if not (config["share_encoder_decoder_embeddings"] and config["tie_word_embeddings"]):
        tables = {"model.encoder.embed_tokens": "vocab_size", "model.decoder.embed_tokens": "decoder_vocab_size"}
    if not config["tie_word_embeddings"]:
        tables["lm_head"] = "decoder_vocab_size"
    tensors |= {f"{name}.weight": torch.randn(config[rows], width) / 2 for name, rows in tables.items()}
    tensors["final_logits_bias"] = torch.randn(1, config["decoder_vocab_size"])
    safetensors.torch.save_file(tensors, folder / "model.safetensors")
    return PlainMarian(folder)


@torch.no_grad()
def our_logits(of: Translator, source: list[int], target: list[int]) -> Tensor:
    """(target, types) after the begin symbol and each of ``target`` but the last."""
    rows = torch.tensor([[BEGIN, *target[:-1]]])
    sources, valid = pad_sources([source])
    return of.model.head(of.model(sources, Span.of(valid), rows, Span.without_padding(rows)))[0]


def as_theirs(pieces: list[int]) -> list[int]:
    """Numbers of an export: padding, unknown, end, and then our other pieces."""
    return [{PAD: 0, UNKNOWN: 1, END: 2}.get(piece, piece - 1) for piece in pieces]


@pytest.mark.parametrize("name", SAYABLE)
def test_an_export_has_our_logits(exported: dict[str, tuple[Path, Translator]], name: str) -> None:
    folder, of = exported[name]
    plain, kept = PlainMarian(folder), [UNKNOWN, *range(END, len(of.target))]
    target = [7, 5, 9, UNKNOWN, 20, 11]
    for source in sources(of.source)[:4]:
        wanted = our_logits(of, source, target)[:, kept]
        found = plain.logits(as_theirs([*source, END]), [0, *as_theirs(target[:-1])])
        torch.testing.assert_close(found[:, 1:], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", SAYABLE)
def test_an_export_comes_back_as_it_was(
    exported: dict[str, tuple[Path, Translator]], tmp_path: Path, name: str
) -> None:
    folder, of = exported[name]
    import_marian(folder, tmp_path / "run")
    back = load(tmp_path / "run", device="cpu")
    kept = [UNKNOWN, *range(END, len(of.target))]
    for line in lines(WORDS, 5, 3):
        source, target = of.source.encode(line), [9, 30, 4, 12]
        assert back.source.encode(line) == source and back.target.decode(target) == of.target.decode(target)
        found, wanted = our_logits(back, source, target), our_logits(of, source, target)
        torch.testing.assert_close(found[:, kept], wanted[:, kept], rtol=1e-5, atol=1e-5)
    assert back.search.beam == 5 and back.search.length_offset == 0.0
    assert json.loads((folder / "generation_config.json").read_text())["early_stopping"] is True


@pytest.mark.parametrize(("shape", "told"), UNSAYABLE, ids=[told for _, told in UNSAYABLE])
def test_what_marian_cannot_say_is_named(shape: dict[str, Any], told: str) -> None:
    assert told in str(marian.obstacles(ModelConfig.model_validate(SMALL | shape)))


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (TokenizerConfig(kind="word"), "not a SentencePiece model"),
        (TokenizerConfig(kind="bpe", lowercase=True), "lowercases text"),
    ],
)
def test_tokenizers_that_marian_has_not_are_named(config: TokenizerConfig, told: str) -> None:
    tokenizer = train_tokenizer(lines(WORDS, 50, 1), config)
    assert told in str(marian.tokenizer_obstacles(tokenizer, tokenizer))


@torch.no_grad()
@pytest.mark.parametrize("name", ["shared", "two-vocabularies", "untied"])
def test_an_import_has_their_probabilities(
    foreign: dict[str, tuple[Path, dict[str, Any]]], tmp_path: Path, name: str
) -> None:
    folder, config = foreign[name]
    plain = write_plain(folder, config)
    import_marian(folder, tmp_path / "run")
    of = load(tmp_path / "run", device="cpu")
    numbers, spoken = (json.loads(path.read_text()) for path in _lists(folder))
    for line in [*lines(WORDS, 4, 3), ">>deu<< the cat", "the 猫 runs"]:
        source = of.source.encode(line)
        theirs = [numbers[piece] for piece in [*of.source.pieces(source), "</s>"]]
        target = [6, 30, UNKNOWN, 12]
        said = [config["decoder_start_token_id"], *(spoken[piece] for piece in of.target.pieces(target[:-1]))]
        wanted = torch.log_softmax(plain.logits(theirs, said), 1)
        found = of.log_probabilities([source], [target[:-1]])[0]
        order = [spoken[piece] for piece in of.target.pieces([PAD, UNKNOWN, END, *range(4, len(of.target))])]
        kept = [PAD, UNKNOWN, END, *range(4, len(of.target))]
        torch.testing.assert_close(found[:, kept], wanted[:, order], rtol=1e-4, atol=1e-4)
        assert float(found[:, BEGIN].max()) < -1000
    assert of.source.pieces(of.source.encode(">>deu<< the cat")) == [
        ">>deu<<",
        *of.source.pieces(of.source.encode("the cat")),
    ]


def _lists(folder: Path) -> list[Path]:
    own = folder / "target_vocab.json"
    return [folder / "vocab.json", own if own.is_file() else folder / "vocab.json"]


def python_with_transformers() -> str:
    """A Python that has transformers: this one, the one that is named, or that of the benchmarks' peers."""
    if importlib.util.find_spec("transformers"):
        return sys.executable
    peers = ROOT / ".envs" / "marian" / "bin" / "python"
    named = os.environ.get("REGARD_TRANSFORMERS_PYTHON") or (str(peers) if peers.exists() else None)
    if named is None:
        pytest.skip("transformers is not installed, and REGARD_TRANSFORMERS_PYTHON names no Python that has it")
    return named


class Asked(NamedTuple):
    """Answers of transformers by folder, and the folders that it made."""

    answers: dict[str, Any]
    made: dict[str, Path]


@pytest.fixture(scope="module")
def asked(
    exported: dict[str, tuple[Path, Translator]],
    foreign: dict[str, tuple[Path, dict[str, Any]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Asked:
    """One process for all questions: it takes seconds to begin."""
    python, folder = python_with_transformers(), tmp_path_factory.mktemp("made")
    made = {name: Path(shutil.copytree(theirs, folder / name)) for name, (theirs, _) in foreign.items()}
    job = {
        "path": [str(ROOT), *sys.path],
        "make": {str(made[name]): config for name, (_, config) in foreign.items()},
        "ask": {str(each): lines(WORDS, 12, 3) for each in [*(path for path, _ in exported.values()), *made.values()]},
    }
    worker = [python, str(Path(__file__).parent / "marian_worker.py")]
    done = subprocess.run(worker, input=json.dumps(job), capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    return Asked(json.loads(done.stdout), made)


def greedy(of: Translator, given: list[list[int]], longest: int = 80) -> list[list[int]]:
    from regard.share.parity import greedy_decoder

    return [output[:longest] for output in greedy_decoder(of)(given, limit(given))]


@pytest.mark.parametrize("name", SAYABLE)
def test_transformers_says_of_an_export_what_we_say(
    asked: Asked, exported: dict[str, tuple[Path, Translator]], name: str
) -> None:
    folder, of = exported[name]
    answer = asked.answers[str(folder)]
    given = sources(of.source)
    assert answer["sources"] == [as_theirs(source) for source in given], "text is cut alike"
    ours = greedy(of, given)
    assert answer["compared"] == ours
    assert len({tuple(output) for output in ours}) > 5, "they say different things"
    for theirs, wanted, text in zip(answer["outputs"], ours, answer["texts"], strict=True):
        assert theirs[1 : 1 + min(29, len(wanted))] == as_theirs(wanted[:29])
        assert text == of.target.decode(wanted[:29]) or len(wanted) > 28


@torch.no_grad()
@pytest.mark.parametrize("name", ["shared", "two-vocabularies", "untied"])
def test_an_import_says_what_transformers_says(asked: Asked, tmp_path: Path, name: str) -> None:
    folder = asked.made[name]
    answer = asked.answers[str(folder)]
    import_marian(folder, tmp_path / "run")
    of = load(tmp_path / "run", device="cpu")
    numbers, spoken = (json.loads(path.read_text()) for path in _lists(folder))
    given = [of.source.encode(line) for line in lines(WORDS, 12, 3)]
    assert answer["sources"] == [[numbers[piece] for piece in of.source.pieces(source)] for source in given]
    ours = greedy(of, given, 29)
    assert [_until(output[1:30], spoken) for output in answer["outputs"]] == [
        [spoken[piece] for piece in of.target.pieces(output)] for output in ours
    ]
    assert len({tuple(output) for output in ours}) > 3, "they say different things"
    kept = [PAD, UNKNOWN, END, *range(4, len(of.target))]
    order = [spoken[piece] for piece in of.target.pieces(kept)]
    for source, output, log_p in zip(given, ours, answer["log_p"], strict=True):
        found = of.log_probabilities([source], [output])[0]
        wanted = torch.tensor(log_p)[: len(found), order]
        torch.testing.assert_close(found[:, kept], wanted, rtol=1e-4, atol=1e-4)
    assert of.search.beam == 3


def _until(output: list[int], spoken: dict[str, int]) -> list[int]:
    """Without the end, and what pads it."""
    ends = (spoken["</s>"], spoken["<pad>"])
    return output[: next((at for at, piece in enumerate(output) if piece in ends), len(output))][:29]
