"""`limen measure`: the distortion between two files or two folders of clips or pictures from any source.

Files of two folders form a pair if their paths inside the folders are equal up to the suffix. Nothing is
omitted silently: files without a partner and pairs that cannot be compared are listed by name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from limen.audio import files as audio_files
from limen.audio.files import clip_header, read_clip
from limen.audio.resample import resample
from limen.core.errors import UserError
from limen.core.types import Batch, Kind, Samples
from limen.images import files as picture_files
from limen.images.files import open_picture, pixels
from limen.metrics.base.apply import applicable, columns, measure
from limen.metrics.base.metric import Column
from limen.metrics.base.summary import summarise

SUFFIXES: dict[str, tuple[str, ...]] = {
    "clip": audio_files.SUFFIXES,
    "picture": picture_files.SUFFIXES,
}
SHORTER_S, SHORTER_PART = 0.1, 0.1
"""Largest difference in length, in seconds and as a share, that encoders and resamplers can cause; pairs that
differ more are two different recordings."""


LoadedPair = tuple[Tensor, Tensor, int | None, list[str]]
"""Clean and adversarial sample of the same shape, their rate, and notes on how they were made comparable."""


@dataclass
class Measured:
    kind: Kind
    columns: dict[str, Column]
    rows: list[dict[str, Any]] = field(default_factory=list)
    """One per pair: id, clean_file, adversarial_file, every column (None if there is no number), note, and
    missing: column -> reason."""
    unmatched: list[str] = field(default_factory=list)
    """Files without a partner."""
    failed: list[str] = field(default_factory=list)
    """Pairs that could not be compared, each with the reason."""

    def summary(self) -> dict[str, dict[str, Any]]:
        return summarise(self.rows, self.columns)


def measure_files(
    clean: str | Path,
    adversarial: str | Path,
    metrics: Sequence[str | Mapping[str, Any]] | None = None,
    *,
    align: bool = False,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> Measured:
    """Measure every pair of clips or pictures; `align` removes a delay between two clips, as codecs cause it.

    A pair that cannot be compared is an error if it is the only one; in folders it is listed in `failed`.
    """
    pairs, unmatched = match(Path(clean), Path(adversarial))
    kinds = {_kind(path) for pair in pairs.values() for path in pair}
    if len(kinds) > 1:
        raise UserError(
            "These pairs contain both clips and pictures. Measure them separately: their numbers are not "
            "comparable."
        )
    kind: Kind = "clip" if kinds == {"clip"} else "picture"
    chosen = applicable(metrics, kind, None, with_model=False)
    measured = Measured(kind, columns(chosen), unmatched=unmatched)
    for done, (name, (one, other)) in enumerate(pairs.items()):
        advance(done, len(pairs))
        try:
            x, x_adv, rate_hz, notes = _clips(one, other, align) if kind == "clip" else _pictures(one, other)
        except UserError as error:
            measured.failed.append(str(error))
            if len(pairs) == 1:
                raise
        else:
            lengths = torch.tensor([x.shape[-1]]) if kind == "clip" else None
            batch = Batch(kind, [name], x[None], torch.zeros(1, dtype=torch.long), lengths)
            (row,) = measure(Samples(batch, x_adv[None], rate_hz), chosen)
            head = {"id": row.pop("id"), "clean_file": str(one), "adversarial_file": str(other)}
            missing = row.pop("missing")
            measured.rows.append({**head, **row, "note": "; ".join(notes), "missing": missing})
    if not measured.rows:
        raise UserError(f"None of the {len(pairs)} pairs could be compared. The first: {measured.failed[0]}")
    return measured


def match(clean: Path, adversarial: Path) -> tuple[dict[str, tuple[Path, Path]], list[str]]:
    """Name -> pair of files, and the files without a partner."""
    for path in (clean, adversarial):
        if not path.exists():
            raise UserError(f"{path}: there is no such file or folder.")
    if clean.is_dir() != adversarial.is_dir():
        raise UserError(
            f"Two files or two folders were expected, but {clean if clean.is_dir() else adversarial} is a "
            f"folder and {adversarial if clean.is_dir() else clean} is a file."
        )
    if clean.is_file():
        for path in (clean, adversarial):
            _kind(path)
        return {clean.name: (clean, adversarial)}, []
    left, right = _media(clean), _media(adversarial)
    pairs = {name: (left.pop(name), right.pop(name)) for name in sorted(left.keys() & right.keys())}
    for stem in sorted({_stem(n) for n in left} & {_stem(n) for n in right}):
        ours, theirs = ([n for n in side if _stem(n) == stem] for side in (left, right))
        if len(ours) == len(theirs) == 1:  # with two of the same stem the pairing is ambiguous
            pairs[ours[0]] = left.pop(ours[0]), right.pop(theirs[0])
    unmatched = [str(path) for path in (*left.values(), *right.values())]
    if not pairs:
        raise UserError(
            f"No file of {clean} has a partner of the same name in {adversarial}. Files form a pair if "
            "their paths inside the folders are equal up to the suffix. Files found: "
            f"{', '.join(unmatched[:4])}."
        )
    return dict(sorted(pairs.items())), unmatched


def _media(folder: Path) -> dict[str, Path]:
    """Path inside the folder -> path, of every clip and picture."""
    known = {s for suffixes in SUFFIXES.values() for s in suffixes}
    found = {
        p.relative_to(folder).as_posix(): p
        for p in sorted(folder.rglob("*"))
        if p.suffix.lower() in known and p.is_file()
    }
    if not found:
        raise UserError(
            f"{folder}: contains no clips ({' '.join(SUFFIXES['clip'])}) and no pictures "
            f"({' '.join(SUFFIXES['picture'])})."
        )
    return found


def _stem(name: str) -> str:
    return name.rsplit(".", 1)[0]


def _kind(path: Path) -> str:
    for kind, suffixes in SUFFIXES.items():
        if path.suffix.lower() in suffixes:
            return kind
    raise UserError(
        f"{path}: the suffix {path.suffix or '(none)'!r} is neither that of a clip "
        f"({' '.join(SUFFIXES['clip'])}) nor of a picture ({' '.join(SUFFIXES['picture'])})."
    )


def _clips(clean: Path, adversarial: Path, align: bool) -> LoadedPair:
    """Both clips at the rate of the clean one and of the same length."""
    (rate_hz, channels), (other_hz, other_channels) = clip_header(clean), clip_header(adversarial)
    notes = []
    if channels > 1 or other_channels > 1:
        notes.append(f"channels averaged ({channels} clean, {other_channels} adversarial)")
    x, x_adv = read_clip(clean, rate_hz), read_clip(adversarial, other_hz)
    if rate_hz != other_hz:
        notes.append(f"adversarial resampled from {other_hz} to {rate_hz} Hz")
        x_adv = resample(x_adv, other_hz, rate_hz).clamp(-1, 1)
    if align:
        lag = delay(x, x_adv)
        if lag:
            notes.append(
                f"adversarial {'late' if lag > 0 else 'early'} by {abs(lag)} samples "
                f"({abs(lag) / rate_hz:.4f} s), aligned"
            )
        x, x_adv = x[max(0, -lag) :], x_adv[max(0, lag) :]
    shorter, longer = sorted((len(x), len(x_adv)))
    if not align and (longer - shorter > SHORTER_S * rate_hz or longer - shorter > SHORTER_PART * longer):
        raise UserError(
            f"{clean} lasts {len(x) / rate_hz:.3f} s and {adversarial} {len(x_adv) / rate_hz:.3f} s: too "
            "different to be compared sample by sample. If one is delayed or cut, align them (--align); "
            "otherwise they are not a pair."
        )
    if shorter != longer:
        notes.append(
            f"{'adversarial' if len(x_adv) == longer else 'clean'} cut by {longer - shorter} samples at its "
            "end"
        )
    return x[:shorter], x_adv[:shorter], rate_hz, notes


def delay(x: Tensor, x_adv: Tensor) -> int:
    """Delay of x_adv in samples: the lag of the largest cross-correlation, up to half of the shorter clip."""
    from scipy.signal import correlate

    reach = min(len(x), len(x_adv)) // 2
    lags = np.arange(-len(x) + 1, len(x_adv))
    correlation = correlate(x_adv.double().numpy(), x.double().numpy(), method="fft")
    near = np.abs(lags) <= reach
    # rounding errors of the transform must not count as a delay
    if correlation[near].max() <= correlation[lags == 0][0] + 1e-9 * np.abs(correlation).max():
        return 0
    return int(lags[near][correlation[near].argmax()])


def _pictures(clean: Path, adversarial: Path) -> LoadedPair:
    (x, notes), (x_adv, others) = _picture(clean), _picture(adversarial)
    if x.shape[1:] != x_adv.shape[1:]:
        raise UserError(
            f"{clean} has {x.shape[2]} x {x.shape[1]} pixels and {adversarial} {x_adv.shape[2]} x "
            f"{x_adv.shape[1]}: pictures must have the same size. Bring them to one size before you "
            "measure them."
        )
    if len(x) != len(x_adv):
        notes = [*notes, "grey compared with colour"]
    return (
        x.expand(max(len(x), len(x_adv)), -1, -1),
        x_adv.expand(max(len(x), len(x_adv)), -1, -1),
        None,
        list(dict.fromkeys([*notes, *others])),
    )


def _picture(path: Path) -> tuple[Tensor, list[str]]:
    """(C, H, W) in [0, 1], and notes on conversions of the file's pixels."""
    picture, notes = open_picture(path)
    return pixels(picture), notes
