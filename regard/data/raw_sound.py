"""Raw sound that arrives as bytes: 16-bit little-endian PCM with one channel, resampled as it arrives."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.data.audio_files import resampler
from regard.data.wav_files import RATES, Samples
from regard.errors import ConfigError

WHOLE = 32768.0  # of a sample of 16 bits


class RawSound:
    """Decoder of raw sound. Outputs depend on the bytes alone, not on the pieces in which they arrive.

    Args:
        rate: samples per second of the bytes.
        new_rate: samples per second to return.

    Raises:
        ConfigError: the rate is impossible, or resampling needs a package that is not installed.
    """

    def __init__(self, rate: int, new_rate: int) -> None:
        if not RATES[0] <= rate <= RATES[1]:
            why = f"it must be from {RATES[0]:,} to {RATES[1]:,} Hz"
            raise ConfigError(f"the rate of raw sound is {rate:,}", where="raw", why=why)
        self._half = b""  # of a sample
        self._resampler: Any = None if rate == new_rate else resampler(rate, new_rate, "raw sound")

    @property
    def is_whole(self) -> bool:
        """True unless the last byte is the first half of a sample."""
        return not self._half

    def add(self, contents: bytes, *, final: bool = False) -> Samples:
        """Return the samples that further bytes complete, from −1 to 1; ``final``: the sound ends with them.

        Half of a sample at the end is dropped.
        """
        contents = self._half + contents
        end = len(contents) // 2 * 2
        self._half = contents[end:]
        samples = (np.frombuffer(contents[:end], "<i2") / WHOLE).astype(np.float32)
        if self._resampler is None:
            return samples
        return np.asarray(self._resampler.resample_chunk(samples, last=final), np.float32)
