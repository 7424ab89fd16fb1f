"""Speed-up of the masking threshold of a batch over the same procedure in loops over frames and maskers.

    python benchmarks/bench_masking.py [seconds of audio] [clips]

The loop is the procedure of Qin et al. 2019 as in their code: frame by frame in numpy, with maskers deleted
from an array one by one. Both run in turn on one core in one process; the ratio is that of the fastest of five
rounds.
"""

import sys
import time

import numpy as np
import torch

from limen.audio.synthesis import speak
from limen.perception.masking import masking_threshold

RATE_HZ = 16_000
WORDS = (
    "the masking threshold tells how much may be hidden under a sound before anyone hears it and it is "
    "computed for every frame again "
)


def clips(seconds: float, n: int) -> np.ndarray:
    samples = int(seconds * RATE_HZ)
    spoken = [
        np.tile(speak(WORDS, voice), 1 + samples // RATE_HZ)[:samples]
        for voice in ("en-us", "en-gb-scotland+f3", "en-029+m3")
    ]
    return np.stack([spoken[i % len(spoken)] for i in range(n)])


def quiet(hz: np.ndarray | float) -> np.ndarray | float:
    khz = np.asarray(hz) / 1000
    return 3.64 * khz**-0.8 - 6.5 * np.exp(-0.6 * (khz - 3.3) ** 2) + 1e-3 * khz**4 - 12


def loops(x: np.ndarray) -> np.ndarray:
    """(T,) -> (frames, 1025)."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(2048) / 2048)
    spectra = np.fft.rfft(
        np.lib.stride_tricks.sliding_window_view(x.astype(np.float64) * 32768, 2048)[::512] * window
    )
    decibels = 10 * np.log10(np.abs(np.sqrt(8 / 3) * spectra / 2048) ** 2 + 1e-19)
    hz = np.linspace(0, RATE_HZ / 2, 1025)
    z = 13 * np.arctan(0.00076 * hz) + 3.5 * np.arctan((hz / 7500) ** 2)
    absolute = np.zeros(1025)
    absolute[z > 1] = 10 ** (quiet(hz[z > 1]) / 10)
    return np.stack([one_frame(level, hz, z) + absolute for level in 96 - decibels.max() + decibels])


def one_frame(level: np.ndarray, hz: np.ndarray, z: np.ndarray) -> np.ndarray:
    bins = 1 + ((level[1:-1] > level[:-2]) & (level[1:-1] > level[2:])).nonzero()[0]
    loudness = 10 * np.log10(sum(10 ** (level[bins + k] / 10) for k in (-1, 0, 1)))
    i = 0
    while i + 1 < len(bins):
        while z[bins[i + 1]] - z[bins[i]] < 0.5:
            if quiet(hz[bins[i]]) > loudness[i]:
                bins, loudness = np.delete(bins, i), np.delete(loudness, i)
            if i + 1 == len(bins):
                break
            weaker = i if loudness[i] < loudness[i + 1] else i + 1
            bins, loudness = np.delete(bins, weaker), np.delete(loudness, weaker)
            if i + 1 == len(bins):
                break
        i += 1
    theta = np.zeros(len(z))
    for m, level_m in zip(bins, loudness, strict=True):
        dz = z - z[m]
        slope = np.where(dz > 0, -27 + 0.37 * max(level_m - 40, 0), 27)
        theta += 10 ** ((level_m - 6.025 - 0.275 * z[m] + slope * dz) / 10)
    return theta


def main() -> None:
    torch.set_num_threads(1)
    seconds, n = (
        float(sys.argv[1]) if len(sys.argv) > 1 else 4.8,
        int(sys.argv[2]) if len(sys.argv) > 2 else 8,
    )
    x = clips(seconds, n)
    tensor, times = torch.from_numpy(x), {"loops": [], "one clip": [], "batch": []}  # type: ignore[var-annotated]
    for _ in range(5):
        for name, run in (
            ("loops", lambda: loops(x[0])),
            ("one clip", lambda: masking_threshold(tensor[:1], None, RATE_HZ)),
            ("batch", lambda: masking_threshold(tensor, None, RATE_HZ)),
        ):
            start = time.process_time()
            result = run()
            times[name].append(time.process_time() - start)
            if name == "loops":
                expected = result
    error = np.abs(masking_threshold(tensor[:1], None, RATE_HZ)[0][0].numpy() / expected - 1)[:, 20:].max()
    fastest = {name: min(values) for name, values in times.items()}
    print(
        f"{seconds:g} s of speech at {RATE_HZ} Hz, processor time per clip; largest relative difference "
        f"{error:.1e}"
    )
    print(f"loops over frames and maskers   {1000 * fastest['loops']:7.1f} ms   1.0 x")
    print(
        f"one clip at once                {1000 * fastest['one clip']:7.1f} ms   "
        f"{fastest['loops'] / fastest['one clip']:.1f} x"
    )
    print(
        f"{n} clips at once                 {1000 * fastest['batch'] / n:7.1f} ms   "
        f"{n * fastest['loops'] / fastest['batch']:.1f} x"
    )


if __name__ == "__main__":
    main()
