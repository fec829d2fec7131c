"""The modules whose code is changed, and the tests that should notice.

Of each module one or more pytest command lines, quick ones first: the next is run only where a change survived the one
before. Since a change that survives meets them all, they are kept to what belongs to the module.
"""

from __future__ import annotations

__all__ = ["TESTS"]

Stages = tuple[tuple[str, ...], ...]

LAWS = "tests/laws/test_laws.py"
SEARCH = ("tests/laws/test_search.py", "-k", "luong-dot or best_of_many or draws_of")  # one model of many
SETTINGS = ("tests/test_decoding.py", "tests/test_sampling.py")
HAND = "tests/hand/test_"


ABILITIES = ("tests/laws/test_abilities.py",)


def laws(*kinds: str) -> tuple[str, ...]:
    return (LAWS, "-k", " or ".join(kinds))


ATTENTION: Stages = (
    (HAND + "attention.py", HAND + "scores.py", "tests/parity/test_torch_layers.py"),
    laws("transformer-multi-query", "self-attention-multi-query", "dot-unscaled"),
)
RECURRENT: Stages = (
    (HAND + "recurrent.py", HAND + "recurrent_build.py", "tests/parity/test_torch_recurrent.py"),
    laws("luong-dot"),
)
CONVOLUTIONAL: Stages = ((HAND + "convolutional.py",), laws("convolutional-widening"))
POSITIONS: Stages = (
    (HAND + "positions.py",),
    laws("self-attention-rotary", "dot-alibi", "dot-t5", "transformer-pre-learned"),
)

LONG = ("tests/test_long_attention.py",)

TESTS: dict[str, Stages] = {
    "regard/core/state.py": (("tests/test_state.py",),),
    "regard/models/cross_entropy.py": (("tests/test_losses.py",),),
    "regard/training/optim.py": (("tests/test_optim.py",), ("tests/test_update.py",)),
    "regard/training/muon.py": (("tests/test_muon.py",),),
    "regard/models/hidden_matrices.py": (("tests/test_muon.py",),),
    "regard/training/shards.py": (("tests/test_shards.py",), ("tests/test_update.py", "tests/test_textbook.py")),
    "regard/inference/decoding.py": (SETTINGS, ("tests/test_translator.py",)),
    "regard/search/batch_search.py": (SETTINGS, SEARCH),
    "regard/search/best_types.py": (SETTINGS, SEARCH),
    "regard/search/greedy.py": (SETTINGS, SEARCH),
    "regard/search/row_state.py": (SETTINGS, SEARCH),
    "regard/search/sampling.py": (SETTINGS, SEARCH),
    "regard/search/repetition.py": (("tests/test_repetition.py",), ("tests/test_generation.py",)),
    "regard/search/beam.py": (("tests/test_beam.py", "tests/test_decoding.py"), SEARCH),
    "regard/search/constrained.py": (("tests/test_constrained.py", "tests/test_decoding.py"),),
    "regard/search/constraint_state.py": (("tests/test_constrained.py",),),
    "regard/data/pairs.py": (("tests/data/test_batches.py",), ("tests/test_update.py",)),
    "regard/attention/span.py": (("tests/test_span.py", "tests/test_mask.py"),),
    "regard/attention/mask.py": (("tests/test_mask.py",), laws("dot-unscaled", "transformer-multi-query")),
    "regard/attention/kernel.py": (("tests/test_kernel.py",), LONG, *ATTENTION),
    "regard/attention/structure.py": (("tests/test_mask.py",), LONG),
    "regard/attention/window_kernel.py": (LONG,),
    "regard/attention/varlen_kernel.py": (("tests/test_mask.py",), LONG),
    "regard/attention/cpu_softmax.py": (("tests/test_kernel.py",), ATTENTION[0]),
    "regard/attention/contract.py": ATTENTION,
    "regard/attention/heads.py": (*ATTENTION, ABILITIES),
    "regard/attention/mechanisms/dot.py": (*ATTENTION, ABILITIES),
    "regard/attention/mechanisms/general.py": (ATTENTION[0], laws("hard-general", "luong-unfed"), ABILITIES),
    "regard/attention/mechanisms/local_predictive.py": (
        (HAND + "location_family.py", HAND + "attention.py"),
        laws("local-p"),
    ),
    "regard/attention/positions/absolute.py": POSITIONS,
    "regard/attention/positions/rotary.py": POSITIONS,
    "regard/attention/positions/distance_bias.py": POSITIONS,
    "regard/models/dropout.py": (("tests/test_dropout.py", "tests/test_textbook.py"),),
    "regard/models/transformer/norms.py": ((HAND + "norms.py", "tests/parity/test_torch_layers.py"),),
    "regard/models/transformer/transformer.py": (
        ("tests/parity/test_torch_layers.py",),
        laws("transformer-pre", "transformer-ro"),
    ),
    "regard/models/encoder_decoder.py": (("tests/test_decoding.py",), SEARCH),
    "regard/models/recurrent/cells.py": RECURRENT,
    "regard/models/recurrent/stack.py": RECURRENT,
    "regard/models/recurrent/bridge.py": RECURRENT,
    "regard/models/recurrent/luong.py": RECURRENT,
    "regard/models/recurrent/bahdanau.py": (RECURRENT[0], laws("bahdanau-lstm")),
    "regard/models/convolutional/gated_convolution.py": CONVOLUTIONAL,
    "regard/models/convolutional/decoder.py": CONVOLUTIONAL,
    "regard/models/convolutional/encoder.py": CONVOLUTIONAL,
}  # fmt: skip
