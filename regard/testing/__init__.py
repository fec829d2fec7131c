"""Laws as tests of any mechanism, mixer, encoder, decoder, task, field or answer.

    from regard.testing import check_mechanism
    check_mechanism(MyScore(heads=2), heads=2, query_width=4, key_width=4, value_width=3)

Each check runs every applicable law on small random inputs in float64, and raises ``AssertionError`` with the name of
the violated law. Regard's own test suite runs the same tables: ``MECHANISM_LAWS``, ``FIELD_LAWS`` and so on.
"""

from __future__ import annotations

from regard.testing.answers import ANSWER_LAWS, AnswerCase, check_answer
from regard.testing.attention_scene import MechanismCase
from regard.testing.decoders import DECODER_LAWS, DecoderCase, check_decoder
from regard.testing.draw import Draw
from regard.testing.encoders import ENCODER_LAWS, EncoderCase, check_encoder
from regard.testing.fields import FIELD_LAWS, FieldCase, check_field
from regard.testing.law import Law
from regard.testing.mechanisms import MECHANISM_LAWS, check_mechanism
from regard.testing.mixers import MIXER_LAWS, MixerCase, check_mixer
from regard.testing.task_case import TaskCase
from regard.testing.tasks import TASK_LAWS, check_task

__all__ = [
    "ANSWER_LAWS",
    "DECODER_LAWS",
    "ENCODER_LAWS",
    "FIELD_LAWS",
    "MECHANISM_LAWS",
    "MIXER_LAWS",
    "TASK_LAWS",
    "AnswerCase",
    "DecoderCase",
    "Draw",
    "EncoderCase",
    "FieldCase",
    "Law",
    "MechanismCase",
    "MixerCase",
    "TaskCase",
    "check_answer",
    "check_decoder",
    "check_encoder",
    "check_field",
    "check_mechanism",
    "check_mixer",
    "check_task",
]
