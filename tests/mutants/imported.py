"""Wrong versions of imported encoders and of their fine-tuning, each with the test that catches it."""

from __future__ import annotations

from regard.fields.tokens import Tokens
from regard.models.input import TokenInput
from regard.models.transformer.build import encoder
from regard.share.bert import RobertaSettings
from regard.share.encoder_vocabulary import read_encoder_vocabulary
from regard.share.modernbert import ModernBertSettings
from regard.tasks.classification.labeled_text import make_text
from tests import test_layer_rates
from tests.share import test_encoder_import

from .editing import Edit
from .table import Mutant, ignored

__all__ = ["IMPORTED"]

PAIRS = test_encoder_import.test_pairs_and_words_have_the_ids_and_segments_of_transformers


def compared(edit: Edit, kind: str) -> Mutant:
    return Mutant(edit, test_encoder_import.test_states_logits_and_ids_are_the_same, {"kind": kind})


IMPORTED: dict[str, Mutant] = {
    "no decay of rates by layer": Mutant(
        ignored("layer_decay"), test_layer_rates.test_the_settings_of_a_training_reach_the_optimizer
    ),
    "no gradual unfreezing": Mutant(
        ignored("unfreeze_every"), test_layer_rates.test_a_training_unfreezes_from_the_top_and_resumes_bit_for_bit
    ),
    "all tokens in the first segment": compared(
        Edit(TokenInput._segment, "ends.cumsum(-1) - ends", "0 * ends"), "bert"
    ),
    "an end symbol in the segment of the next text": compared(
        Edit(TokenInput._segment, "ends.cumsum(-1) - ends", "ends.cumsum(-1)"), "bert"
    ),
    "the epsilon of another norm": compared(
        Edit(ModernBertSettings.stack, "self.norm_eps", "10 * self.norm_eps"), "modernbert"
    ),
    "positions of RoBERTa from the row of padding": compared(
        Edit(RobertaSettings.positions.fget, "self.pad_token_id - 1", "self.pad_token_id"), "roberta"
    ),
    "positions of RoBERTa one row too late": compared(
        Edit(RobertaSettings.positions.fget, "self.pad_token_id - 1", "self.pad_token_id - 2"), "roberta"
    ),
    "begin and end symbol exchanged": compared(
        Edit(read_encoder_vocabulary, "rows = [*framing,", "rows = [*framing[:2], framing[3], framing[2],"), "bert"
    ),
    "global attention one layer too late": compared(
        Edit(encoder, "number % (config.global_every or 1) == 0", "number % (config.global_every or 1) == 1"),
        "modernbert",
    ),
    "a norm before the first attention": compared(
        Edit(encoder, "if not config.first_norm:", "if False:"), "modernbert"
    ),
    "masks of ESM that are read": compared(Edit(TokenInput._without_masks, "(~masked).to(vectors.dtype)", "1"), "esm"),
    "ESM scaled as in training only": compared(
        Edit(TokenInput._without_masks, "/ (1 - share).clamp(min=1e-6)", "* (1 + 0 * share)"), "esm"
    ),
    "ESM without token dropout": compared(
        Edit(TokenInput.drop_tokens, "self.token_dropout = share", "self.token_dropout = 0.0"), "esm"
    ),
    "one end symbol between two texts of RoBERTa": Mutant(
        Edit(make_text, "else model.separators", "else 1"), PAIRS, {"kind": "roberta"}
    ),
    "words of a sentence without the space of their pieces": Mutant(
        Edit(Tokens.encode, '" " if self.tokenizer.config.word_space else ""', '""'), PAIRS, {"kind": "modernbert"}
    ),
}
