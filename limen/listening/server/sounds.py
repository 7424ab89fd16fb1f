"""The sounds of screens, kept in memory while they are asked for, and the proof that they were played."""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from limen.core.errors import UserError
from limen.listening import design
from limen.listening.stimuli import Stimuli, digest, inside, length_s
from limen.listening.study import Study
from limen.trials.base.screen import Screen

KEPT_BYTES = 256 * 2**20
"""Memory for sounds; those not asked for longest go first."""


@dataclass(frozen=True)
class Made:
    """The sounds of a screen, in order."""

    wavs: Sequence[bytes]
    digests: Sequence[str]
    lengths_s: Sequence[float]


class Sounds:
    def __init__(self, study: Study, folder: Path, cache: Path):
        self.study = study
        self._stimuli = Stimuli(study, folder, cache)
        self._kept: OrderedDict[str, Made] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        self._makers = [threading.Lock() for _ in range(64)]

    def ready(self, screen: Screen) -> Made | None:
        """The sounds of a screen if they are in memory."""
        recipe = _recipe(screen)
        with self._lock:
            if (made := self._kept.get(recipe)) is not None:
                self._kept.move_to_end(recipe)
            return made

    def of(self, screen: Screen) -> Made:
        """The sounds of a screen, from memory, from the disk, or made now."""
        if (made := self.ready(screen)) is not None:
            return made
        recipe = _recipe(screen)
        # a page asks for all sounds of a screen at once: they are made together, once
        with self._makers[hash(recipe) % len(self._makers)]:
            if (made := self.ready(screen)) is not None:
                return made
            wavs = self._stimuli.sounds(screen, self.study.seed)
            made = Made(wavs, [digest(wav) for wav in wavs], [length_s(wav) for wav in wavs])
            with self._lock:
                self._kept[recipe] = made
                self._size += sum(map(len, wavs))
                while self._size > KEPT_BYTES and len(self._kept) > 1:
                    self._size -= sum(map(len, self._kept.popitem(last=False)[1].wavs))
            return made

    def proved(self, screen: Screen, playback: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """What the page says of its playback, each with `proved`: the samples it decoded are those that were
        sent, and were played, from a start or after a switch. `length_s`, how long the sound lasts, is
        ours."""
        labels = [sound.label for sound in screen.sounds]
        said = {p["label"]: p for p in playback}
        if strange := sorted(set(said) - set(labels)):
            raise UserError(f"This screen has no sound called {ascii(strange[0])[:60]}.")
        if not said:
            return []
        made, out = self.of(screen), []
        for label, right, seconds in zip(labels, made.digests, made.lengths_s, strict=True):
            if p := said.get(label):
                proved = p["plays"] + p.get("switches", 0) > 0 and p["digest"] == right
                out.append({**p, "proved": proved, "length_s": seconds})
        return out

    def check(self) -> None:
        """A UserError for a study that a listener could not take: a file is missing, or no item serves a
        step."""
        for screen in self._examples():
            for sound in screen.sounds:
                if not sound.stimulus.file.startswith("limen:"):
                    inside(self._stimuli.folder, sound.stimulus.file)

    def prepare(self) -> None:
        """Makes the sounds that do not depend on answers, so that no listener waits for them."""
        for screen in self._examples():
            if all(
                effect.strength is not None for sound in screen.sounds for effect in sound.stimulus.effects
            ):
                self.of(screen)

    def _examples(self) -> Iterator[Screen]:
        for group in self.study.cells:
            yield from design.screens(self.study, group, 0)


def _recipe(screen: Screen) -> str:
    return repr([sound.stimulus for sound in screen.sounds])
