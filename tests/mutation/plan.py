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

TESTS: dict[str, Stages] = {
    "regard/state.py": (("tests/test_state.py",),),
    "regard/losses.py": (("tests/test_losses.py",),),
    "regard/optim.py": (("tests/test_optim.py",), ("tests/test_update.py",)),
    "regard/gradients.py": (("tests/test_gradients.py",), ("tests/test_update.py", "tests/test_textbook.py")),
    "regard/decoding.py": (SETTINGS, ("tests/test_translator.py",)),
    "regard/search.py": (SETTINGS, SEARCH),
    "regard/beams.py": (("tests/test_beam.py", "tests/test_decoding.py"), SEARCH),
    "regard/constrained.py": (("tests/test_constrained.py", "tests/test_decoding.py"),),
    "regard/wanted.py": (("tests/test_constrained.py",),),
    "regard/data/batches.py": (("tests/data/test_batches.py",), ("tests/test_update.py",)),
    "regard/attention/mask.py": (("tests/test_mask.py",), laws("dot-unscaled", "transformer-multi-query")),
    "regard/attention/kernel.py": (("tests/test_kernel.py",), *ATTENTION),
    "regard/attention/short.py": (("tests/test_kernel.py",), ATTENTION[0]),
    "regard/attention/contract.py": ATTENTION,
    "regard/attention/heads.py": (*ATTENTION, ABILITIES),
    "regard/attention/dot.py": (*ATTENTION, ABILITIES),
    "regard/attention/general.py": (ATTENTION[0], laws("hard-general", "luong-unfed"), ABILITIES),
    "regard/attention/local.py": ((HAND + "location_family.py", HAND + "attention.py"), laws("local-p")),
    "regard/attention/position.py": POSITIONS,
    "regard/attention/rotary.py": POSITIONS,
    "regard/attention/bias.py": POSITIONS,
    "regard/models/dropout.py": (("tests/test_dropout.py", "tests/test_textbook.py"),),
    "regard/models/norms.py": ((HAND + "norms.py", "tests/parity/test_torch_layers.py"),),
    "regard/models/transformer.py": (("tests/parity/test_torch_layers.py",), laws("transformer-pre", "transformer-ro")),
    "regard/models/model.py": (("tests/test_decoding.py",), SEARCH),
    "regard/models/cells.py": RECURRENT,
    "regard/models/stack.py": RECURRENT,
    "regard/models/bridge.py": RECURRENT,
    "regard/models/luong.py": RECURRENT,
    "regard/models/bahdanau.py": (RECURRENT[0], laws("bahdanau-lstm")),
    "regard/models/convolution.py": CONVOLUTIONAL,
    "regard/models/convolutional.py": CONVOLUTIONAL,
    "regard/models/convolutional_encoder.py": CONVOLUTIONAL,
}  # fmt: skip
