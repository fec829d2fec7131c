"""Laws of state, masks and weights, as tests of any mechanism, mixer, encoder or decoder.

    from regard.testing import check_mechanism
    check_mechanism(MyScore(heads=2), heads=2, query_width=4, key_width=4, value_width=3)

Each check runs every law that applies, on small random inputs in float64, and raises ``AssertionError`` naming the
law that fails. Regard's own suite runs the same tables, such as ``MECHANISM_LAWS``.
"""

from __future__ import annotations

from regard.testing.decoders import DECODER_LAWS, DecoderCase, check_decoder
from regard.testing.draw import Draw
from regard.testing.encoders import ENCODER_LAWS, EncoderCase, check_encoder
from regard.testing.law import Law
from regard.testing.mechanisms import MECHANISM_LAWS, MechanismCase, check_mechanism
from regard.testing.mixers import MIXER_LAWS, MixerCase, check_mixer
from regard.testing.task_case import TaskCase
from regard.testing.tasks import TASK_LAWS, check_task

__all__ = [
    "DECODER_LAWS",
    "ENCODER_LAWS",
    "MECHANISM_LAWS",
    "MIXER_LAWS",
    "TASK_LAWS",
    "DecoderCase",
    "Draw",
    "EncoderCase",
    "Law",
    "MechanismCase",
    "MixerCase",
    "TaskCase",
    "check_decoder",
    "check_encoder",
    "check_mechanism",
    "check_mixer",
    "check_task",
]
