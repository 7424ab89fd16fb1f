r"""Simultaneous masking threshold of a clip: the changes that the clip hides. Qin et al. 2019,
https://arxiv.org/abs/1903.10346, section 3.2 and appendix.

Per frame (2048 samples, every 512, periodic Hann window, none across the ends of the clip), k a bin and z_k
its place on the Bark scale:

    p(k)     = | sqrt(8/3) STFT(x)_k / N |^2                       power; psd_max is its maximum over the clip
    P(k)     = 96 + 10 log10(p(k) / psd_max)                       the loudest bin is at 96 dB
    P_TM(m)  = 10 log10 sum_{k = m-1}^{m+1} 10^{P(k)/10}
        maskers m: the local maxima of P, all treated as tones
    T(m, k)  = P_TM(m) - 6.025 - 0.275 z_m + SF(m, k)
    SF(m, k) = 27 (z_k - z_m) below the masker,  (-27 + 0.37 max(P_TM(m) - 40, 0)) (z_k - z_m) above it
    theta(k) = sum_m 10^{T(m, k)/10} + 10^{quiet(k)/10}
        linear power; quiet is the threshold of hearing less 12 dB

If two maskers are less than half a bark apart the weaker is dropped; the authors' code does this in a scan
from left to right, which here runs over all frames at once. A change delta is hidden in the bins for which
10^{9.6} / psd_max * |sqrt(8/3) STFT(delta)_k / N|^2 <= theta(k).

Departs from the authors' code: that scales delta by 8/3 instead of sqrt(8/3), which makes it 4.3 dB louder
than it is. The floor that keeps the logarithm of silence finite is theirs on their scale of 16-bit integers,
so the threshold does not depend on that of the clip.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from limen.audio.stft import frame_count, power
from limen.core.types import valid

STEP = 1 / 32768
"""One step of 16-bit audio."""
FLOOR = 1e-19 * STEP**2
"""Added to powers before taking their logarithm."""
QUIETEST = STEP**2 / 6
"""Power of a tone with an amplitude of one step of 16-bit audio. Silence, which hides nothing, is measured as
if its loudest bin had this power."""
LOUDEST_DB = 96.0
APART_BARK = 0.5
AT_ONCE = 2048
"""Maskers whose spread is computed at once: more do not fit into a processor's cache."""


def bark(hz: Tensor) -> Tensor:
    """Zwicker's scale of critical bands."""
    return 13 * torch.atan(0.00076 * hz) + 3.5 * torch.atan((hz / 7500) ** 2)


def quiet_db(hz: Tensor) -> Tensor:
    """Threshold of hearing in quiet less 12 dB. Terhardt 1979."""
    khz = hz / 1000
    return 3.64 * khz**-0.8 - 6.5 * torch.exp(-0.6 * (khz - 3.3) ** 2) + 1e-3 * khz**4 - 12


def masking_threshold(
    x: Tensor, lengths: Tensor | None, rate_hz: int, n_fft: int = 2048, hop: int = 512
) -> tuple[Tensor, Tensor]:
    """(B, T) -> theta (B, frames, n_fft // 2 + 1) and psd_max (B,). Frames of padding have an infinite
    threshold.

    Maskers are chosen in double precision, so that the choice does not depend on rounding.
    """
    mask = valid(x, lengths)
    psd = spectral_power(x.double() if mask is None else x.double() * mask, n_fft, hop)
    count = frame_count(torch.full((len(x),), x.shape[-1]) if lengths is None else lengths, n_fft, hop)
    assert isinstance(count, Tensor)
    own = torch.arange(psd.shape[1], device=x.device) < count.to(x.device)[:, None]
    loudest = psd.masked_fill(~own[:, :, None], 0).amax((1, 2))
    level = LOUDEST_DB + 10 * ((psd + FLOOR) / (loudest[:, None, None] + FLOOR)).log10()
    theta = x.new_full(psd.shape, torch.inf)
    theta[own] = _thresholds(
        level[own],
        torch.linspace(0, rate_hz / 2, psd.shape[2], dtype=torch.float64, device=x.device),
        x.dtype,
    )
    return theta, loudest.clamp_min(QUIETEST).to(x.dtype)


def spectral_power(x: Tensor, n_fft: int, hop: int) -> Tensor:
    """(..., T) -> (..., frames, n_fft // 2 + 1), differentiable at 0 too, because no root is taken."""
    window = torch.hann_window(n_fft, dtype=torch.float64, device=x.device) * (math.sqrt(8 / 3) / n_fft)
    return power(x, window, hop)


def perturbation_psd(delta: Tensor, psd_max: Tensor, n_fft: int = 2048, hop: int = 512) -> Tensor:
    """(B, T) -> (B, frames, n_fft // 2 + 1) on the scale of the threshold, differentiable."""
    return spectral_power(delta, n_fft, hop) * (10 ** (LOUDEST_DB / 10) / psd_max)[:, None, None]


@dataclass(frozen=True)
class Masking:
    """The masking thresholds of a batch of clips, including their edges: clips are surrounded by silence, so
    that every sample is in n_fft / hop frames.

    Without that the first and the last samples would have almost no weight, and those after the last complete
    frame none: an attack limited only by what is measured would leave a click there.
    """

    theta: Tensor
    psd_max: Tensor
    n_fft: int
    hop: int

    @staticmethod
    def of(x: Tensor, lengths: Tensor | None, rate_hz: int, n_fft: int = 2048, hop: int = 512) -> "Masking":
        n = torch.full((len(x),), x.shape[-1], device=x.device) if lengths is None else lengths
        mask = valid(x, lengths)
        surrounded = _surrounded(x if mask is None else x * mask, n_fft, hop)
        theta, psd_max = masking_threshold(
            surrounded, n + 2 * (n_fft - hop) + (-n) % hop, rate_hz, n_fft, hop
        )
        return Masking(theta, psd_max, n_fft, hop)

    def psd(self, delta: Tensor) -> Tensor:
        """(B, T), silent on padding -> (B, frames, bins)."""
        return perturbation_psd(_surrounded(delta, self.n_fft, self.hop), self.psd_max, self.n_fft, self.hop)

    def excess(self, delta: Tensor) -> Tensor:
        """(B,) l_theta: mean over frames and bins of max(0, psd - theta), differentiable."""
        return (self.psd(delta) - self.theta).clamp_min(0).sum((1, 2)) / self._bins()

    def audible(self, delta: Tensor) -> Tensor:
        """(B,) share of the frames' bins in which the change exceeds the threshold."""
        return (self.psd(delta) > self.theta).sum((1, 2)) / self._bins()

    def rows(self, index: Tensor) -> "Masking":
        return replace(self, theta=self.theta[index], psd_max=self.psd_max[index])

    def _bins(self) -> Tensor:
        return self.theta.isfinite().sum((1, 2))


def _surrounded(x: Tensor, n_fft: int, hop: int) -> Tensor:
    """With silence before and after, up to a multiple of the hop."""
    return F.pad(x, (n_fft - hop, n_fft - hop + -x.shape[-1] % hop))


def _thresholds(level: Tensor, hz: Tensor, dtype: torch.dtype) -> Tensor:
    """(N, bins) levels in dB -> (N, bins) linear thresholds."""
    z = bark(hz)
    rows, bins, loudness = _maskers(level, z, quiet_db(hz))
    # as in the authors' code, the threshold in quiet is 0 below 1 bark
    quiet = torch.where(z > 1, 10 ** (quiet_db(hz) / 10), 0)
    theta = quiet.to(dtype).expand(len(level), -1).clone()
    height, above, at, z = (
        t.to(dtype)
        for t in (loudness - 6.025 - 0.275 * z[bins], 0.37 * (loudness - 40).clamp_min(0) - 27, z[bins], z)
    )
    for some in torch.arange(len(rows), device=level.device).split(AT_ONCE):
        dz = z - at[some, None]
        spread = torch.where(dz > 0, above[some, None], 27.0).mul_(dz)
        theta.index_add_(0, rows[some], (spread.add_(height[some, None]).mul_(math.log(10) / 10)).exp_())
    return theta


def _maskers(level: Tensor, z: Tensor, quiet: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Row, bin and P_TM of every masker that is kept."""
    middle = level[:, 1:-1]
    rows, bins = ((middle > level[:, :-2]) & (middle > level[:, 2:])).nonzero().unbind(1)
    bins = bins + 1
    loudness = (
        10
        * (10 ** (level[rows[:, None], bins[:, None] + torch.arange(-1, 2, device=level.device)] / 10))
        .sum(1)
        .log10()
    )
    count = torch.bincount(rows, minlength=len(level))
    stays = _scan(count, loudness, z[bins], loudness < quiet[bins])
    return rows[stays], bins[stays], loudness[stays]


def _scan(count: Tensor, loudness: Tensor, z: Tensor, inaudible: Tensor) -> Tensor:
    """Which maskers are kept, given those of every row one row after the other, `count` in each row.

    The authors' scan: while the next masker is within half a bark of this one, this one is dropped if it is
    inaudible and the next takes its place; then the weaker of this one and the one after it is dropped (of
    equal ones the later), however far apart they are. Otherwise this one is kept and the next takes its
    place. The scan never goes back, so it needs two pointers per row, and all rows advance together.
    """
    stays = torch.zeros_like(inaudible)
    last = count.cumsum(0)
    here = last - count
    going = count > 0
    here, last = here[going], last[going]
    there = here + 1
    while len(here):
        stays[here[there >= last]] = True  # nothing follows
        going = there < last
        if not bool(going.all()):
            here, there, last = here[going], there[going], last[going]
        near = z[there] - z[here] < APART_BARK
        stays[here[~near]] = True
        gone = near & inaudible[here]
        here = torch.where(~near | gone, there, here)
        there = there + (~near | gone)
        after = there.clamp_max(len(z) - 1)
        versus = near & (there < last)
        here = torch.where(versus & (loudness[here] < loudness[after]), there, here)
        there = there + versus
    return stays
