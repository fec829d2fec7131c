"""Log-mel frames: numbers by hand, a direct Fourier transform, librosa, and the ends of silence."""

from __future__ import annotations

import math

import numpy as np
import pytest

from regard.data.frame_augmentation import KNEE, augment_frames, shifted, warped
from regard.data.log_mel import FLOOR, LogMel, corner_frequencies, loud_range, mel, mel_filters
from regard.data.sound_options import SoundOptions

SETTINGS = [(8000, 40), (8000, 80), (16000, 40), (16000, 80), (22050, 80), (44100, 80)]


def noise(seconds: float, rate: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.1, round(seconds * rate)).astype(np.float32)


def test_sizes_by_hand() -> None:
    recipe = LogMel(8000, 40)
    assert (recipe.window, recipe.step, recipe.size) == (200, 80, 256)
    assert (LogMel(16000).window, LogMel(16000).step, LogMel(16000).size) == (400, 160, 512)
    assert [recipe.count(samples) for samples in (1, 200, 279, 280, 8000)] == [1, 1, 1, 2, 98]  # 1 + ⌊(n − 200) / 80⌋


def test_mel_scale_by_hand() -> None:
    """Half the mels of 4,000 Hz are those of 700 (√(1 + 4000 / 700) − 1) = 1,113.8 Hz; 1,000 Hz have 1,000 mels."""
    assert corner_frequencies(8000, 1) == pytest.approx([0, 700 * (math.sqrt(1 + 4000 / 700) - 1), 4000])
    assert float(mel(1000)) == pytest.approx(1000, abs=0.02)


def test_a_filter_by_hand() -> None:
    """Bins of 31.25 Hz; a triangle is 0 at its corners, rises and falls linearly, and reaches 1 at its center."""
    recipe = LogMel(8000, 1)
    (row,), (low, center, high) = mel_filters(recipe), corner_frequencies(8000, 1)
    expected = [
        min((f - low) / (center - low), (high - f) / (high - center)) for f in np.arange(129) * 31.25
    ]  # fmt: skip
    assert row == pytest.approx(np.maximum(expected, 0)) and row[0] == row[128] == 0 and 0.98 < row.max() <= 1


@pytest.mark.parametrize(("rate", "channels"), SETTINGS)
def test_no_channel_is_empty(rate: int, channels: int) -> None:
    assert (mel_filters(LogMel(rate, channels)).sum(1) > 0).all()


def test_a_silent_frame_is_the_floor() -> None:
    frames = LogMel(8000, 40).frames(np.zeros(200, np.float32))
    assert frames == pytest.approx(np.full((1, 40), math.log(FLOOR)), rel=1e-6)


@pytest.mark.parametrize(("rate", "channels"), SETTINGS[:4])
def test_frames_equal_a_direct_transform(rate: int, channels: int) -> None:
    """Sums written out, one frequency at a time, without a fast transform or a block."""
    recipe, samples = LogMel(rate, channels), noise(0.06, rate)
    frames = recipe.frames(samples)
    n = np.arange(recipe.window)
    hann = np.sin(np.pi * n / recipe.window) ** 2
    for t in range(len(frames)):
        x = samples[t * recipe.step :][: recipe.window].astype(np.float64) * hann
        power = [abs(np.sum(x * np.exp(-2j * np.pi * k * n / recipe.size))) ** 2 for k in range(recipe.size // 2 + 1)]
        assert frames[t] == pytest.approx(np.log(mel_filters(recipe) @ power + 1e-10), abs=1e-5)


def test_a_tone_is_loudest_in_the_nearest_channel() -> None:
    recipe = LogMel(16000, 40)
    frames = recipe.frames(np.sin(2 * np.pi * 1000 * np.arange(16000) / 16000).astype(np.float32))
    nearest = int(np.argmin(np.abs(np.array(recipe.centers) - 1000)))
    assert {*frames.argmax(1).tolist()} == {nearest}


def test_blocks_do_not_change_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, samples = LogMel(8000, 40), noise(1, 8000)
    whole, ends = recipe.frames(samples), loud_range(samples, recipe, 10)
    monkeypatch.setattr("regard.data.log_mel.BLOCK", 7)
    assert np.array_equal(recipe.frames(samples), whole) and loud_range(samples, recipe, 10) == ends


@pytest.mark.parametrize(("rate", "channels"), SETTINGS[:4])
def test_frames_equal_librosa(rate: int, channels: int) -> None:
    librosa = pytest.importorskip("librosa", reason="librosa belongs to the environment of other toolkits")
    recipe, samples = LogMel(rate, channels), noise(0.5, rate)
    margin = (recipe.size - recipe.window) // 2  # librosa centers the window in the transform
    energies = librosa.feature.melspectrogram(
        y=np.pad(samples, margin), sr=rate, n_fft=recipe.size, hop_length=recipe.step, win_length=recipe.window,
        window="hann", center=False, power=2.0, n_mels=channels, htk=True, norm=None,
    )  # fmt: skip
    assert recipe.frames(samples) == pytest.approx(np.log(energies + 1e-10).T, abs=1e-3)


def test_silent_ends_are_outside_of_the_loud_range() -> None:
    """Frames 10 to 19 have noise that is 40 dB above the rest; a window reaches 2.5 frames."""
    recipe, samples = LogMel(8000, 40), noise(0.4, 8000)
    samples[: 10 * 80] /= 100
    samples[20 * 80 :] /= 100
    first, end = loud_range(samples, recipe, 30)
    assert 8 <= first <= 10 and 19 <= end <= 21
    assert loud_range(samples, recipe, 60) == (0, recipe.count(len(samples)))
    assert loud_range(np.ones(1000, np.float32), recipe, 30) == (0, recipe.count(1000))  # all windows are equally loud


def test_a_shift_by_hand() -> None:
    frames, mean = np.array([[1], [2], [3]], np.float32), np.array([9], np.float32)
    assert [shifted(frames, steps, mean).ravel().tolist() for steps in (-4, -1, 0, 2, 3)] == [
        [9, 9, 9], [2, 3, 9], [1, 2, 3], [9, 9, 1], [9, 9, 9],
    ]  # fmt: skip


@pytest.mark.parametrize("factor", [0.8, 0.95, 1.1, 1.25])
def test_a_warp_moves_a_tone_by_its_factor(factor: float) -> None:
    recipe, time = LogMel(8000, 40), np.arange(4000) / 8000
    for frequency in (300, 800, 1500):
        warped_tone = warped(recipe.frames(np.sin(2 * np.pi * frequency * factor * time)), factor, recipe.rate)
        expected = recipe.frames(np.sin(2 * np.pi * frequency * time))
        assert frequency < KNEE * 4000 * min(1, 1 / factor)
        assert np.abs(warped_tone.argmax(1) - expected.argmax(1)).max() <= 1


def test_a_warp_keeps_both_ends_and_the_range_of_values() -> None:
    ramp = np.arange(40, dtype=np.float32)[None].repeat(3, 0)
    assert np.allclose(warped(ramp, 1.0, 8000), ramp, atol=1e-4)
    for factor in (0.7, 1.3):
        changed = warped(ramp, factor, 8000)
        assert (np.diff(changed) >= 0).all() and changed.min() >= 0 and changed.max() <= 39
        assert changed[0, -1] > 38
        assert (np.sign(changed - ramp)[:, 1:-1] == np.sign(factor - 1)).all()


def test_warps_are_drawn_from_their_range() -> None:
    frames = np.arange(40, dtype=np.float32)[None]
    moved = [
        float(augment_frames(frames, frames[0], SoundOptions(rate=8000, warp=0.2), np.random.default_rng(seed))[0, 20])
        for seed in range(200)
    ]
    least, largest = (float(warped(frames, factor, 8000)[0, 20]) for factor in (0.8, 1.2))
    assert least <= min(moved) < least + 0.2 and largest - 0.2 < max(moved) <= largest


def test_masks_are_bands_of_zeros_within_their_limits() -> None:
    options = SoundOptions(channel_masks=1, channel_width=4, time_masks=1, time_width=50, time_share=0.2)
    frames, sizes = np.ones((30, 40), np.float32), set[tuple[int, int]]()
    for seed in range(300):
        changed = augment_frames(frames, np.arange(40, dtype=np.float32) + 7, options, np.random.default_rng(seed))
        rows, columns = (changed > 1).all(1), (changed > 1).all(0)
        assert np.array_equal(changed, np.where(changed > 1, np.arange(40) + 7, 1))
        assert np.array_equal(changed > 1, rows[:, None] | columns)
        for mask in (rows, columns):
            assert np.abs(np.diff(np.pad(mask.astype(int), 1))).sum() in (0, 2)  # one range
        sizes.add((int(columns.sum()), int(rows.sum())))
    assert {first for first, _ in sizes} == {*range(5)} and {second for _, second in sizes} == {*range(7)}
    assert (frames == 1).all()


def test_nothing_is_changed_without_options() -> None:
    frames = noise(0.1, 8000).reshape(-1, 40)
    assert np.array_equal(augment_frames(frames, frames[0], SoundOptions(), np.random.default_rng(0)), frames)
