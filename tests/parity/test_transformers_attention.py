"""Mechanisms of Regard as the attention of a Llama of transformers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.errors import ConfigError

transformers = pytest.importorskip("transformers", reason="needs transformers: pip install transformers")

from regard.integrations.transformers import register  # noqa: E402

SIZES = {
    "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 40, "max_position_embeddings": 32,
}  # fmt: skip


def llama(attention: str, weights: Any = None) -> Any:
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, attn_implementation=attention)).eval()
    if weights is not None:
        model.load_state_dict(weights.state_dict())
    return model


def inputs() -> dict[str, torch.Tensor]:
    """Return two rows, of which the second begins with padding."""
    tokens = torch.randint(3, 40, (2, 9), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(tokens)
    mask[1, :4] = 0
    return {"input_ids": tokens, "attention_mask": mask}


@torch.no_grad()
def test_dot_is_the_attention_of_transformers() -> None:
    theirs = llama("eager")
    ours, batch = llama(register("dot"), theirs), inputs()
    shown = batch["attention_mask"].bool()
    torch.testing.assert_close(ours(**batch).logits[shown], theirs(**batch).logits[shown], rtol=1e-5, atol=1e-5)
    outputs = [model.generate(**batch, max_new_tokens=6, do_sample=False, pad_token_id=0) for model in (theirs, ours)]
    assert torch.equal(*outputs)


def test_another_mechanism_has_other_outputs_and_a_gradient() -> None:
    theirs, batch = llama("eager"), inputs()
    ours = llama(register("top-k", keep=2), theirs)
    logits = ours(**batch).logits
    assert (logits - theirs(**batch).logits).abs().max() > 1e-4
    logits.square().sum().backward()
    assert all(weight.grad is not None for weight in ours.parameters())
    many = llama(register("top-k", keep=9, name="regard-all"), theirs)
    with torch.no_grad():
        shown = batch["attention_mask"].bool()
        torch.testing.assert_close(many(**batch).logits[shown], theirs(**batch).logits[shown], rtol=1e-5, atol=1e-5)


def test_a_mechanism_with_parameters_is_a_submodule() -> None:
    model = llama(register("general"))
    model(**inputs())
    assert [name for name, _ in model.named_parameters() if "regard_mechanism" in name]


def test_what_cannot_be_registered_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown mechanism"):
        register("dott")
    with pytest.raises(ConfigError, match="cannot be the attention"):
        register("coverage")
