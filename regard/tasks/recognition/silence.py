"""Recordings without words: silence, noise and tones, as sounds, or as frames of a run that reads frames."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Frames = npt.NDArray[np.float32]

LOUDNESS = (-4.0, 2.0)  # range of the mean level, in deviations of the training data
DECIBELS = (-3.5, -0.2)  # range of the base-10 logarithm of the largest sample
LOWEST_TONE = 50.0  # Hz
TONE_WIDTH, TONE_SHARE = 6, 0.3  # channels of a tone, and share of recordings with a tone


def wordless_frames(length: int, channels: int, random: np.random.Generator) -> Frames:
    """Return standardized frames (length, channels) of a stationary sound.

    Each channel has a level that is constant in time: a common loudness, a slope over the channels, and differences
    between channels; some sounds have a tone, which is a loud band. Each frame adds independent noise, as in the
    spectrum of noise. Digital silence has a very low level and no noise.
    """
    place = np.linspace(-1, 1, channels)
    level = (
        random.uniform(*LOUDNESS) + random.normal() * place + random.uniform(0, 1) * random.standard_normal(channels)
    )
    if random.random() < TONE_SHARE:
        center = random.integers(channels)
        level = level + random.uniform(2, 6) * np.exp(-(((np.arange(channels) - center) / TONE_WIDTH) ** 2))
    noise = random.uniform(0, 1.2) * random.standard_normal((length, channels))
    return np.asarray(level + noise, np.float32)


def wordless_sound(length: int, rate: int, random: np.random.Generator) -> npt.NDArray[np.float32]:
    """Return samples (length,) between −1 and 1 of silence, noise or a tone with harmonics, at a random loudness.

    An eighth is digital silence, with or without single steps of noise. Noise has an amplitude of 1 / frequency to a
    power between 0 and 1. Half of the sounds have a tone, whose frequency is as likely in each octave, and half of
    these have noise, too.
    """
    kind = random.integers(8)
    if kind == 0:
        return (random.integers(-1, 2, length) * random.integers(2) / 32768).astype(np.float32)
    sound = np.zeros(length)
    if kind < 4 or random.random() < 0.5:
        spectrum = np.fft.rfft(random.standard_normal(length))
        sound = np.fft.irfft(spectrum / np.arange(1, len(spectrum) + 1) ** random.uniform(0, 1), length)
        sound /= np.abs(sound).max()
    if kind >= 4:
        frequency = np.exp(random.uniform(np.log(LOWEST_TONE), np.log(rate / 2.5)))
        phase = 2 * np.pi * frequency * np.arange(length) / rate
        tones = sum(np.sin(number * phase) / number**2 for number in range(1, 1 + random.integers(1, 4)))
        sound = sound * random.uniform(0, 0.3) + tones
    loudness = 10 ** random.uniform(*DECIBELS)
    return (loudness * sound / np.abs(sound).max()).astype(np.float32)
