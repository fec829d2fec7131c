"""Log-mel frames of sounds: the energies of overlapping windows in bands of frequency.

    x_t = Hann window · samples from t · step                    periodic window w_n = ½ − ½ cos(2π n / N)
    e_tc = Σ_k H_ck |FFT(x_t)_k|²                                 FFT of the next power of two
    y_tc = ln(e_tc + 1e-10)
    H_ck: triangles over frequency, whose corners are equidistant in mel(f) = 2595 log10(1 + f / 700) from 0 to rate / 2

This is HTK's scale without area normalization, as in torchaudio; librosa: ``htk=True, norm=None, center=False``.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from regard.data.wav_files import Samples

WINDOW, STEP = 0.025, 0.01  # seconds
FRAME_RATE = 100.0  # frames per second
FLOOR = 1e-10  # added to each energy
BLOCK = 4096  # frames computed at a time
UNIT = "ln energy"

FrameTable = npt.NDArray[np.float32]  # (frames, channels)


class LogMel(NamedTuple):
    """The recipe of features: samples per second, and the number of channels."""

    rate: int
    channels: int = 80

    @property
    def window(self) -> int:
        """Samples of a window."""
        return round(WINDOW * self.rate)

    @property
    def step(self) -> int:
        """Samples between the starts of two windows."""
        return round(STEP * self.rate)

    @property
    def size(self) -> int:
        """Size of the Fourier transform."""
        return 1 << (self.window - 1).bit_length()

    @property
    def name(self) -> str:
        """A text that determines the features of a sound, for files that keep them."""
        return f"log-mel {self.channels} at {self.rate} Hz, 25/10 ms, HTK"

    @property
    def centers(self) -> tuple[float, ...]:
        """Center frequency of each channel, in Hz."""
        return tuple(corner_frequencies(self.rate, self.channels)[1:-1].tolist())

    def count(self, samples: int) -> int:
        """Return the number of frames of a sound; one that is shorter than a window has one."""
        return 1 + max(samples - self.window, 0) // self.step

    def samples(self, frames: int) -> int:
        """Return the smallest number of samples of a sound with this number of frames."""
        return self.window + (frames - 1) * self.step

    def frames(self, samples: Samples) -> FrameTable:
        """Return the frames (frames, channels) of samples (samples,).

        A sound that is shorter than a window is extended by zeros; samples after the last whole window are not read.
        Cost: size · log2(size) + channels · size / 2 multiply-adds per frame, in constant memory.
        """
        filters, hann = mel_filters(self), _hann(self.window)
        table = np.empty((self.count(len(samples)), self.channels), np.float32)
        for start, windows in _blocks(samples, self):
            spectrum = np.fft.rfft(windows * hann, self.size)
            power = np.square(spectrum.real) + np.square(spectrum.imag)
            table[start : start + len(windows)] = np.log(power @ filters.T + FLOOR)
        return table


def mel(frequency: npt.NDArray[np.float64] | float) -> npt.NDArray[np.float64]:
    """Return 2595 log10(1 + f / 700) of a frequency in Hz."""
    return np.asarray(2595 * np.log10(1 + np.asarray(frequency, np.float64) / 700))


def corner_frequencies(rate: int, channels: int) -> npt.NDArray[np.float64]:
    """Return the corners of the triangles in Hz, (channels + 2,): triangle c reaches from corner c to corner c + 2."""
    corners = np.linspace(0, float(mel(rate / 2)), channels + 2)
    return np.asarray(700 * (10 ** (corners / 2595) - 1))


@cache
def mel_filters(recipe: LogMel) -> npt.NDArray[np.float64]:
    """Return H, (channels, size / 2 + 1)."""
    corners = corner_frequencies(recipe.rate, recipe.channels)
    frequency = np.arange(recipe.size // 2 + 1) * (recipe.rate / recipe.size)
    low, center, high = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising, falling = (frequency - low) / (center - low), (high - frequency) / (high - center)
    return np.asarray(np.maximum(0, np.minimum(rising, falling)))


def loud_range(samples: Samples, recipe: LogMel, decibels: float) -> tuple[int, int]:
    """Return the first and the end frame between which a sound is not silent.

    A window is silent if its energy is more than ``decibels`` below that of the loudest window.
    """
    energies = window_energies(samples, recipe)
    loud = np.flatnonzero(energies >= energies.max() * 10 ** (-decibels / 10))
    return int(loud[0]), int(loud[-1]) + 1


def window_energies(samples: Samples, recipe: LogMel) -> npt.NDArray[np.float64]:
    """Return the energy of each window (frames,): that of its samples less their mean, which microphones may shift."""
    energies = np.empty(recipe.count(len(samples)))
    for start, windows in _blocks(samples, recipe):
        energies[start : start + len(windows)] = windows.var(1, dtype=np.float64)
    return energies


def _blocks(samples: Samples, recipe: LogMel) -> list[tuple[int, Samples]]:
    """Return the first frame of each block, and its windows (frames, window), which share memory."""
    missing = max(recipe.window - len(samples), 0)
    signal = np.pad(samples, (0, missing)) if missing else samples
    windows = np.lib.stride_tricks.sliding_window_view(signal, recipe.window)[:: recipe.step]
    return [(start, windows[start : start + BLOCK]) for start in range(0, len(windows), BLOCK)]


@cache
def _hann(size: int) -> npt.NDArray[np.float64]:
    return np.asarray(0.5 - 0.5 * np.cos(2 * math.pi * np.arange(size) / size))
