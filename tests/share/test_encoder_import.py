"""Encoders that transformers has written, as runs: the same states, logits and ids of texts, or a reason why not."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.attention.span import Span
from regard.data.tokenizers.tokenizer import BEGIN, END
from regard.errors import ConfigError, ModelError
from regard.fields.tokens import Tokens
from regard.runs.config import load_config
from regard.share.import_folder import import_folder
from regard.tasks.classification.labeled_text import make_text
from regard.tasks.load import load_net
from tests.test_reading_part import LABELED, LINES, TAGGED, tables, weights

TEXTS = [
    "the cat sat", "The Cats, sat on the mat.", "", " ", "caf\u00e9 e\u0301", "unable", "[CLS] the [MASK]",
    "zebra \u4e2d\u6587 \U0001f600", "a" * 130, "it's  the\tend", "</s> the <mask>",
]  # fmt: skip
PROTEINS = ["MKTAYIAKQR", "mkt", "MK12X", "M K\tT", "", " ", "MK 1 2 X", "A\u00e9\u4e2dB", "J" * 130, "MKZ-.O"]
SIZES = {
    "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 160, "initializer_range": 0.3,
}  # fmt: skip
WORDPIECES = [
    "[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", "sat", "on", "mat", ".", ",", "un",
    "##able", "caf", "##e", "##\u00e9", "e", "[", "]", "mask", "'", "s", "it", "\u4e2d",
]  # fmt: skip


def wordpieces(**options: Any) -> Any:
    transformers = pytest.importorskip("transformers", reason="needs transformers: pip install transformers")
    return transformers.BertTokenizer(vocab={piece: row for row, piece in enumerate(WORDPIECES)}, **options)


def byte_pairs() -> Any:
    """A tokenizer like that of RoBERTa, whose special pieces come first and whose mask comes last."""
    transformers = pytest.importorskip("transformers", reason="needs transformers: pip install transformers")
    from tokenizers.pre_tokenizers import ByteLevel

    pieces = ["<s>", "<pad>", "</s>", "<unk>", *sorted(ByteLevel.alphabet()), "th", "\u0120th", "\u0120the", "<mask>"]
    vocab = {piece: row for row, piece in enumerate(pieces)}
    merges = [("t", "h"), ("\u0120", "th"), ("\u0120th", "e")]
    return transformers.RobertaTokenizer(vocab=vocab, merges=merges)


def modern_pairs() -> Any:
    """A byte-level tokenizer like that of ModernBERT: special pieces are added last, and runs of spaces are pieces."""
    transformers = pytest.importorskip("transformers", reason="needs transformers: pip install transformers")
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    library = Tokenizer(models.BPE(vocab={piece: row for row, piece in enumerate(
        ["|pad|", *sorted(pre_tokenizers.ByteLevel.alphabet()), "th", "\u0120th", "\u0120the"])},
        merges=[("t", "h"), ("\u0120", "th"), ("\u0120th", "e")]))  # fmt: skip
    library.normalizer, library.decoder = normalizers.NFC(), decoders.ByteLevel()
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.add_tokens([AddedToken("  ", normalized=True)])
    library.add_special_tokens(["[UNK]", "[CLS]", "[SEP]", "[PAD]"])
    library.add_special_tokens([AddedToken("[MASK]", lstrip=True, special=True)])
    frame = [(piece, library.token_to_id(piece)) for piece in ("[SEP]", "[CLS]")]
    library.post_processor = processors.BertProcessing(*frame)
    names = {f"{role}_token": f"[{role.upper()}]" for role in ("unk", "cls", "sep", "pad", "mask")}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=library, **names)


class Residues:
    """The tokenizer of ESM, which reads a list of pieces."""

    def __new__(cls) -> Any:
        transformers = pytest.importorskip("transformers", reason="needs transformers: pip install transformers")
        pieces = ["<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWCXBUZO.-", "<null_1>", "<mask>"]
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "vocab.txt").write_text("\n".join(pieces))
            return transformers.EsmTokenizer(f"{folder}/vocab.txt")


MODERN = {
    "hidden_size": 16, "num_hidden_layers": 5, "num_attention_heads": 2, "intermediate_size": 20, "local_attention": 6,
    "max_position_embeddings": 160, "initializer_range": 0.3,
}  # fmt: skip
KINDS: dict[str, tuple[str, dict[str, Any], Callable[[], Any]]] = {
    "bert": ("Bert", SIZES, wordpieces),
    "bert, cased": ("Bert", SIZES | {"hidden_act": "gelu_new", "type_vocab_size": 3, "tie_word_embeddings": False},
                    lambda: wordpieces(do_lower_case=False)),
    "roberta": ("Roberta", SIZES | {"type_vocab_size": 1, "max_position_embeddings": 60}, byte_pairs),
    "roberta, untied": ("Roberta", SIZES | {"tie_word_embeddings": False, "hidden_act": "relu"}, byte_pairs),
    "distilbert": ("DistilBert", {
        "dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 20, "max_position_embeddings": 160,
        "initializer_range": 0.3, "activation": "gelu",
    }, wordpieces),
    "modernbert": ("ModernBert", MODERN, modern_pairs),
    "modernbert, with biases": ("ModernBert", MODERN | {
        "norm_bias": True, "attention_bias": True, "classifier_bias": True, "decoder_bias": False,
        "global_attn_every_n_layers": 1,
    }, modern_pairs),
    "esm": ("Esm", SIZES | {"position_embedding_type": "rotary", "token_dropout": True}, Residues),
    "esm, learned positions": ("Esm", SIZES | {"emb_layer_norm_before": True, "max_position_embeddings": 44}, Residues),
}  # fmt: skip


def folder_of(kind: str, folder: Path, ending: str = "ForMaskedLM", **more: Any) -> tuple[Any, Any]:
    """Write a tiny model of random weights with a tokenizer; returns both."""
    transformers = pytest.importorskip("transformers", reason="needs transformers: pip install transformers")
    classes, sizes, make_reader = KINDS[kind]
    reader = make_reader()
    config = getattr(transformers, f"{classes}Config")(
        **sizes | more, vocab_size=len(reader) + 3, pad_token_id=reader.pad_token_id, mask_token_id=reader.mask_token_id
    )
    torch.manual_seed(3)
    model = getattr(transformers, classes + ending)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    reader.save_pretrained(folder)
    return model, reader


def rows_of(tokenizer: Any, reader: Any, types: int) -> list[int]:
    """The row in the foreign tables of each of Regard's ids, and of the mask, by the spelling of the pieces."""
    spelled = [
        reader.pad_token_id,
        reader.unk_token_id,
        reader.cls_token_id,
        reader.sep_token_id or reader.eos_token_id,
    ]
    vocabulary, names = reader.get_vocab(), tokenizer.pieces(range(4, len(tokenizer)))
    rows = [*spelled, *(vocabulary.get(name, -1) for name in names), reader.mask_token_id]
    unused = iter(sorted({*range(types)} - {*rows}))
    return [next(unused) if row < 0 else row for row in rows]


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_states_logits_and_ids_are_the_same(kind: str, tmp_path: Path) -> None:
    theirs, reader = folder_of(kind, tmp_path / "theirs")
    filler = regard.load(import_folder(tmp_path / "theirs", tmp_path / "run").path, device="cpu")
    own, net, types = filler.tokenizer, filler.model, theirs.config.vocab_size
    rows = torch.tensor(rows_of(own, reader, types))
    assert len(rows) == len(own) + 1 == types and len({*rows.tolist()}) == types
    for text in PROTEINS if kind.startswith("esm") else TEXTS:
        assert rows[[BEGIN, *own.encode(text), END]].tolist() == own_view(reader, text), text
    tokens = torch.randint(4, types, (3, 40), generator=torch.Generator().manual_seed(0))
    tokens[:, 0], tokens[0, 5], tokens[1, 9], tokens[2, 7] = BEGIN, END, END, types - 1
    valid = torch.ones_like(tokens, dtype=torch.bool)
    valid[1, 30:] = False
    tokens[~valid] = 0
    more = {}
    if kind.startswith("bert"):
        more["token_type_ids"] = torch.zeros_like(tokens)
        more["token_type_ids"][0, 6:] = more["token_type_ids"][1, 10:] = 1
    expected = theirs(rows[tokens], attention_mask=valid.long(), output_hidden_states=True, **more)
    span = Span.of(valid)
    states, logits = net.encoder(tokens, span).states, net.head(net(tokens, span))
    assert (states - expected.hidden_states[-1])[valid].abs().max() < 1e-5
    assert (logits - expected.logits[..., rows])[valid].abs().max() < 1e-5 * max(1, float(logits.abs().max()))
    assert logits.std() > 0.1, "the weights are large enough to see a difference"


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "modernbert", "esm"])
def test_pairs_and_words_have_the_ids_and_segments_of_transformers(kind: str, tmp_path: Path) -> None:
    theirs, reader = folder_of(kind, tmp_path / "theirs")
    imported = import_folder(tmp_path / "theirs", tmp_path / "run").path
    net, codecs, _ = load_net(imported, device="cpu")
    rows = torch.tensor(rows_of(codecs.tokenizer, reader, theirs.config.vocab_size))
    model = {"encoder": {"from": str(imported)}}
    data = {"train": [{"source": "pairs.tsv"}], "text": [1, 2], "label": 3}
    config: Any = load_config({"task": "classification", "data": data, "model": model})
    field = make_text(config.data, config.model)
    field.tokenizer = codecs.tokenizer
    texts = PROTEINS if kind == "esm" else TEXTS[:6]
    for pair in zip(texts, reversed(texts), strict=True):
        (row,) = field.encode([pair]).rows
        one, other = pair
        expected = {key: value[0] for key, value in reader([one], [other]).items()}  # a plain "" is no second text
        assert rows[torch.from_numpy(row)].tolist() == expected["input_ids"]
        if "token_type_ids" in expected and kind == "bert":
            assert net.encoder.embedding._segment(torch.from_numpy(row)[None])[0].tolist() == expected["token_type_ids"]
    words = Tokens((1,), max_length=100)
    words.tokenizer = codecs.tokenizer
    sentence = ("MKT", "1", "A") if kind == "esm" else ("the", "Cats", "unable", "\u4e2d.")
    (row,) = words.encode([sentence]).rows
    if hasattr(reader, "add_prefix_space") or kind == "modernbert":
        expected = reader(" " + " ".join(sentence))
    else:
        expected = reader(list(sentence), is_split_into_words=True)
    assert rows[torch.from_numpy(row[:, 0])].tolist() == expected["input_ids"]


def own_view(reader: Any, text: str) -> list[int]:
    """The ids that transformers returns, with special pieces that the text spells as text."""
    plain = {} if type(reader).__name__ == "EsmTokenizer" else {"split_special_tokens": True}
    ids: list[int] = reader(text, **plain)["input_ids"]
    return ids


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "bert"
    folder_of("bert", folder, max_position_embeddings=20)
    return folder


def test_a_folder_without_a_masked_head_starts_other_models_only(tmp_path: Path) -> None:
    theirs, _ = folder_of("bert", tmp_path / "theirs", "Model")
    run = import_folder(tmp_path / "theirs", tmp_path / "run")
    net = load_net(run.path, device="cpu")[0]
    assert torch.equal(net.encoder.embedding.segments, theirs.embeddings.token_type_embeddings.weight)
    with pytest.raises(ModelError, match="imported from a folder without a masked head"):
        regard.load(run.path)
    with pytest.raises(ConfigError, match=r"model\.head"):
        load_config({"task": "masked", "data": {"train": [{"source": "x"}]}, "model": {"from": str(run.path)}})


@pytest.mark.parametrize(("task", "key", "longest"), [
    ("classification", "max_length", 18), ("tagging", "max_length", 18), ("masked", "context", 20),
])  # fmt: skip
def test_a_task_starts_with_the_weights_and_needs_no_folder_later(
    whole: Path, tmp_path: Path, task: str, key: str, longest: int
) -> None:
    """The encoder is equal before the first update; a key that contradicts the folder is an error that names both."""
    theirs = Path(shutil.copytree(whole, tmp_path / "theirs"))
    imported = import_folder(theirs, tmp_path / "imported").path
    for name, content in (("text.txt", "\n".join(LINES)), ("labeled.tsv", LABELED), ("tagged.jsonl", TAGGED)):
        (tmp_path / name).write_text(content)
    values = tables(tmp_path, task, {"encoder": {"from": str(imported)}}, steps=2)
    values["data"].pop("context", None)
    config: Any = load_config(values)
    assert getattr(config.data, key) == longest and config.model.encoder.segments == 2
    with pytest.raises(ConfigError, match=f"learned positions[^$]*data.{key}={longest}"):
        load_config(values, [f"data.{key}={longest + 1}"])
    with pytest.raises(ConfigError, match=r"encoder\.norm cannot be 'pre'[^$]*were trained with 'post'"):
        load_config(values, ["model.encoder.norm=pre"])
    regard.train(values, tmp_path / "tuned")
    shutil.rmtree(theirs), shutil.rmtree(imported)
    reference = import_folder(whole, tmp_path / "reference").path
    source, start, tuned = weights(reference), weights(tmp_path / "tuned", "0"), weights(tmp_path / "tuned", "2")
    names = [name for name in source if name.startswith("encoder.")]
    assert names and all(torch.equal(source[name][: len(start[name])], start[name]) for name in names)
    assert not any(torch.equal(start[name], tuned[name]) for name in names)
    assert regard.load(tmp_path / "tuned") is not None


def test_two_texts_share_the_positions(whole: Path, tmp_path: Path) -> None:
    imported = import_folder(whole, tmp_path / "imported").path
    data = {"train": [{"source": "pairs.tsv"}], "text": [1, 2], "label": 3}
    config: Any = load_config({"task": "classification", "data": data, "model": {"encoder": {"from": str(imported)}}})
    assert config.data.max_length == 8 and config.longest == 19
