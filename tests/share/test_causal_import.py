"""Language models that transformers has written, as runs: the same logits and continuations, or a reason why not."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import regard
from regard.attention.span import Span
from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import BEGIN, TokenizerConfig
from regard.errors import ModelError
from regard.share.import_folder import import_folder
from regard.share.logit_parity import greedy_continuation
from regard.share.transformers_format import write
from tests.share.test_causal_export import HALF, LLAMA, SIZES, TEXTS, config_of, model_of, tokenizer_of

EOT = "<|endoftext|>"
SMALL = {"hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 2}
GROUPED = SMALL | {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 40}
ROPE = {"rope_type": "default", "rope_theta": 99.0}
UNTIED = {"tie_word_embeddings": False}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2", {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 40, "n_inner": 24}),
    "gpt2, untied": ("GPT2", {"n_embd": 16, "n_layer": 1, "n_head": 4, "n_positions": 40} | UNTIED),
    "llama": ("Llama", GROUPED | {"rms_norm_eps": 0.01, "rope_parameters": ROPE}),
    "llama, tied": ("Llama", GROUPED | {"tie_word_embeddings": True, "attention_bias": True, "head_dim": 6}),
    "mistral": ("Mistral", GROUPED | {"sliding_window": 3}),
    "qwen2": ("Qwen2", GROUPED),
    "gpt-neox": ("GPTNeoX", SMALL | {
        "use_parallel_residual": False, "max_position_embeddings": 40, "hidden_act": "gelu_new",
        "attention_bias": False, "rope_parameters": ROPE | {"partial_rotary_factor": 1.0},
    }),
}  # fmt: skip


def tokenizer_json(specials: list[str]) -> str:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    library = Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    library.train_from_iterator(
        TEXTS * 5,
        trainers.BpeTrainer(vocab_size=270, special_tokens=[], initial_alphabet=alphabet, show_progress=False),
    )
    library.add_special_tokens(specials)
    return str(library.to_str())


def folder_of(kind: str, folder: Path, extra: list[str] | None = None, **saving: Any) -> Any:
    """Write a tiny model of random weights with a tokenizer; returns the model. ``extra``: added pieces."""
    transformers = pytest.importorskip("transformers", reason="needs transformers: pip install transformers")
    name, sizes = KINDS[kind]
    specials = (extra or []) + ([EOT] if name in ("GPT2", "GPTNeoX") else ["<begin>", EOT])
    text = tokenizer_json(specials)
    pieces = max(json.loads(text)["model"]["vocab"].values()) + 1 + len(specials)
    symbols = {"eos_token_id": pieces - 1, "bos_token_id": pieces - len(specials[-2:]), "pad_token_id": None}
    config = getattr(transformers, f"{name}Config")(**sizes, **symbols, vocab_size=pieces + 3)
    torch.manual_seed(3)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder, **saving)
    (folder / "tokenizer.json").write_text(text)
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_logits_and_continuations_are_the_same(kind: str, tmp_path: Path) -> None:
    theirs = folder_of(kind, tmp_path / "theirs")
    generator = regard.load(import_folder(tmp_path / "theirs", tmp_path / "run").path, device="cpu")
    from tokenizers import Tokenizer

    reader = Tokenizer.from_file(str(tmp_path / "theirs" / "tokenizer.json"))
    types, own = theirs.config.vocab_size, generator.tokenizer
    spelled = {piece: number for number, piece in enumerate(own.pieces(range(len(own))))}
    for text in TEXTS:
        ids = own.encode(text)
        row = reader.encode(text, add_special_tokens=False).ids
        assert own.decode(ids) == text and len(row) == len(ids)
        ours, others = torch.tensor([[BEGIN, *ids]]), torch.tensor([[theirs.config.bos_token_id, *row]])
        features = generator.model(ours, Span.without_padding(ours)).features
        logits, expected = generator.model.head(features)[0].detach(), theirs(others).logits[0].detach()
        numbers = {spelled[piece]: at for piece, at in reader.get_vocab().items() if piece in spelled}
        assert len(numbers) >= types - 3 - 2
        at, there = map(list, zip(*numbers.items(), strict=True))
        assert (logits[:, at] - expected[:, there]).abs().max() < 1e-4
        assert torch.allclose(logits.logsumexp(-1), expected.logsumexp(-1), atol=1e-4), "no type counts twice"
        most = 8
        bar = [theirs.config.bos_token_id] if theirs.config.bos_token_id != theirs.config.eos_token_id else None
        found = theirs.generate(
            others, attention_mask=torch.ones_like(others), do_sample=False, max_new_tokens=most, suppress_tokens=bar
        )
        continued = greedy_continuation(generator, ours, most)
        text_there = [reader.id_to_token(each) or "" for each in found[0, others.shape[1] :].tolist()]
        text_here = own.pieces(continued)
        assert [a for a, b in zip(text_there, text_here, strict=False) if a != b and a and a != EOT] == []
        assert len(text_there) == len(text_here)


def test_a_model_in_several_files_is_the_same(tmp_path: Path) -> None:
    folder_of("llama", tmp_path / "one")
    folder_of("llama", tmp_path / "many", max_shard_size="8KB")
    assert len(list((tmp_path / "many").glob("*.safetensors"))) > 1
    one, many = (regard.load(import_folder(tmp_path / each, tmp_path / f"run-{each}").path) for each in ("one", "many"))
    there = dict(many.model.named_parameters())
    assert all(torch.equal(tensor, there[name]) for name, tensor in one.model.named_parameters())


def test_an_imported_run_scores_is_looked_at_and_has_a_card(tmp_path: Path) -> None:
    folder_of("gpt2", tmp_path / "theirs")
    generator = regard.load(import_folder(tmp_path / "theirs", tmp_path / "run").path)
    assert generator.score("the cat").nll > 0
    assert generator.inspect("the cat") is not None
    assert generator("the", length=3, seed=1).text is not None
    (tmp_path / "text").write_text("the cat sat\n")
    assert regard.evaluate(tmp_path / "run", tmp_path / "text").figures["bits_per_byte"] > 0
    card = (tmp_path / "run" / "README.md").read_text()
    assert "GPT2LMHeadModel in theirs" in card and f'regard.load("{tmp_path / "run"}")' in card


@pytest.mark.parametrize("kind", ["byte", "character", "byte-bpe"])
@pytest.mark.parametrize("model", [{}, LLAMA | {"position": HALF, "share": "none"}, {"position": "learned"}])
def test_what_was_exported_comes_back(kind: str, model: dict[str, Any], tmp_path: Path) -> None:
    """Tensors bit for bit from the second time on, and from the first where nothing is laid out anew."""
    config, tokenizer = config_of(model | {"attention_bias": True}, kind), tokenizer_of(kind)
    net = model_of(config, len(tokenizer))
    write(net, config, tokenizer, tmp_path / "one")
    first = regard.load(import_folder(tmp_path / "one", tmp_path / "run").path)
    run = regard.load(tmp_path / "run")
    from regard.runs.run_folder import RunFolder

    write(run.model, RunFolder.open(tmp_path / "run").config, run.tokenizer, tmp_path / "two")
    one, two = (safetensors.torch.load_file(tmp_path / each / "model.safetensors") for each in ("one", "two"))
    assert one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)
    assert [first.tokenizer.encode(text) for text in TEXTS] == [tokenizer.encode(text) for text in TEXTS]
    tokens = torch.randint(len(tokenizer), (2, 9))
    span = Span.without_padding(tokens)
    ours, back = (each.head(each(tokens, span).features) for each in (net, first.model))
    assert (ours - back).abs().max() < 1e-4


# ---------------------------------------------------------------------------
# Folders that are broken or hostile


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as export writes it, so that transformers is not needed."""
    folder = tmp_path_factory.mktemp("whole") / "llama"
    config = config_of(LLAMA | {"share": "none"}, "byte-bpe")
    tokenizer = train_tokenizer(TEXTS, TokenizerConfig(kind="byte-bpe", size=262))
    write(model_of(config, len(tokenizer)), config, tokenizer, folder)
    return folder


def config(**values: Any) -> Callable[[Path], None]:
    return lambda folder: change(folder / "config.json", lambda found: found.update(values))


def change(path: Path, by: Callable[[dict[str, Any]], Any]) -> None:
    found = json.loads(path.read_text())
    by(found)
    path.write_text(json.dumps(found))


def pieces(by: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    return lambda folder: change(folder / "tokenizer.json", by)


def tensors(**values: torch.Tensor | None) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        path = folder / "model.safetensors"
        found: dict[str, Any] = safetensors.torch.load_file(path)
        found |= {name.replace("__", "."): x for name, x in values.items()}
        safetensors.torch.save_file({name: x for name, x in found.items() if x is not None}, path)

    return changed


def sharded(weight_map: Any) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        (folder / "model.safetensors").rename(folder / "model-1.safetensors")
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))

    return changed


def instead(name: str) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        (folder / name).touch()

    return changed


def pipe(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    os.mkfifo(folder / "tokenizer.json")


REFUSED: list[tuple[str, Callable[[Path], None], str]] = [
    ("another kind", config(model_type="falcon"), "`model_type` is 'falcon'; supported are marian, llama"),
    ("no kind", config(model_type=[1]), "`model_type` is '[1]'"),
    ("scaled positions", config(rope_parameters={"rope_type": "llama3"}), "rotary positions are scaled (llama3)"),
    ("scaled, older", config(rope_parameters=None, rope_scaling={"type": "linear"}), "are scaled (linear)"),
    ("part of a head", config(rope_parameters={"partial_rotary_factor": 0.5}), "rotate only a part of each head"),
    ("quantized", config(quantization_config={"bits": 4}), "weights are quantized"),
    ("another activation", config(hidden_act="tanh"), "activation is tanh"),
    ("biases of feed-forwards", config(mlp_bias=True), "feed-forwards have biases"),
    ("layers without end", config(num_hidden_layers=10**9), "num_hidden_layers"),
    ("more layers than there are", config(num_hidden_layers=900), "config.json states 900 layers"),
    ("one layer more", config(num_hidden_layers=3), "the tensor model.layers.2."),
    ("one layer less", config(num_hidden_layers=1), "the tensor model.layers.1."),
    ("a width for no memory", config(hidden_size=1 << 20, head_dim=None), "has the shape"),
    ("a head for no memory", config(head_dim=1 << 20), "has the shape"),
    ("rows for no memory", config(vocab_size=1 << 24), "the model has 16,777,216 rows"),
    ("fewer rows than pieces", config(vocab_size=100), "not all from 0 to 99"),
    ("odd heads", config(head_dim=5), "require an even head width"),
    ("heads that do not divide", config(num_key_value_heads=3), "does not divide"),
    ("not a number", config(rms_norm_eps=float("nan")), "rms_norm_eps"),
    ("no end", config(eos_token_id=None), "`eos_token_id` is missing"),
    ("an end that is no row", config(eos_token_id=999), "has the id 999"),
    ("a pickle", instead("pytorch_model.bin"), "is a pickle"),
    ("no weights", instead("nothing"), "has no model.safetensors"),
    ("weights that are none", instead("model.safetensors"), "model.safetensors"),
    ("a tensor too few", tensors(lm_head__weight=None), "lm_head.weight is missing"),
    ("a tensor too many", tensors(model__extra=torch.ones(2)), "model.extra is not part of such a model"),
    ("whole numbers", tensors(model__norm__weight=torch.ones(12, dtype=torch.int64)), "not floating point"),
    ("files elsewhere", sharded({"model.norm.weight": "../model-1.safetensors"}), "not the name of a safetensors file"),
    ("a file that is not there", sharded({"model.norm.weight": "model-2.safetensors"}), "which does not exist"),
    ("a tensor that is not there", sharded({"other": "model-1.safetensors"}), "has no tensor other"),
    ("no names", sharded([1]), "`weight_map` is not a table"),
    ("a pipe", pipe, "not a regular file"),
    ("words", pieces(lambda found: found["model"].update(type="WordLevel")), "`model.type` is not BPE"),
    ("SentencePiece", pieces(lambda found: found.update(decoder={"type": "Metaspace"})), "not a byte-level BPE"),
    ("lowered", pieces(lambda found: found.update(normalizer={"type": "Lowercase"})), "its normalizer Lowercase"),
    ("two of one number", pieces(lambda found: found["model"]["vocab"].update(zz=9)), "two pieces have the same id"),
    ("a number that is none", pieces(lambda found: found["model"]["vocab"].update(zz="9")), "not all from 0"),
    ("two numbers", pieces(lambda found: found["added_tokens"][0].update(id=7)), "has two ids"),
    ("merges of nothing", pieces(lambda found: found["model"].update(merges=[["q", "nope"]])), "not a tokenizer of"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "expected"), [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED])
def test_what_cannot_be_imported_is_told_and_leaves_nothing(
    whole: Path, tmp_path: Path, wrong: Callable[[Path], None], expected: str
) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "theirs"))
    wrong(folder)
    with pytest.raises(ModelError) as error:
        import_folder(folder, tmp_path / "run")
    assert expected in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


def test_the_folder_as_it_is_can_be_imported(whole: Path, tmp_path: Path) -> None:
    assert import_folder(whole, tmp_path / "run").config.width == SIZES["width"]
