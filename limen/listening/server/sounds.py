"""The sounds of screens, kept in memory, and the proof that they were played."""

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

MAX_BYTES = 256 * 2**20
"""Memory for sounds; the least recently used are dropped first."""


@dataclass(frozen=True)
class Rendered:
    """The sounds of a screen, in order."""

    wavs: Sequence[bytes]
    digests: Sequence[str]
    lengths_s: Sequence[float]


class Sounds:
    def __init__(self, study: Study, folder: Path, cache: Path):
        self.study = study
        self._stimuli = Stimuli(study, folder, cache)
        self._rendered: OrderedDict[str, Rendered] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        self._render_locks = [threading.Lock() for _ in range(64)]

    def in_memory(self, screen: Screen) -> Rendered | None:
        """The sounds of a screen if they are in memory."""
        recipe = _recipe(screen)
        with self._lock:
            if (rendered := self._rendered.get(recipe)) is not None:
                self._rendered.move_to_end(recipe)
            return rendered

    def of(self, screen: Screen) -> Rendered:
        """The sounds of a screen, from memory, from the cache on disk, or rendered now."""
        if (rendered := self.in_memory(screen)) is not None:
            return rendered
        recipe = _recipe(screen)
        # a page requests all sounds of a screen at the same time: they are rendered together, once
        with self._render_locks[hash(recipe) % len(self._render_locks)]:
            if (rendered := self.in_memory(screen)) is not None:
                return rendered
            wavs = self._stimuli.sounds(screen, self.study.seed)
            rendered = Rendered(wavs, [digest(wav) for wav in wavs], [length_s(wav) for wav in wavs])
            with self._lock:
                self._rendered[recipe] = rendered
                self._size += sum(map(len, wavs))
                while self._size > MAX_BYTES and len(self._rendered) > 1:
                    self._size -= sum(map(len, self._rendered.popitem(last=False)[1].wavs))
            return rendered

    def proved(self, screen: Screen, playback: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """What the page reports about its playback, each sound with `proved` (the page decoded the samples
        that were sent, and started the sound or switched to it) and `length_s` (its length, from the
        server)."""
        labels = [sound.label for sound in screen.sounds]
        reports = {p["label"]: p for p in playback}
        if unknown := sorted(set(reports) - set(labels)):
            raise UserError(f"This screen has no sound {ascii(unknown[0])[:60]}.")
        if not reports:
            return []
        rendered, result = self.of(screen), []
        for label, expected, seconds in zip(labels, rendered.digests, rendered.lengths_s, strict=True):
            if report := reports.get(label):
                started = report["plays"] + report.get("switches", 0) > 0
                proved = started and report["digest"] == expected
                result.append({**report, "proved": proved, "length_s": seconds})
        return result

    def check(self) -> None:
        """A UserError if a listener could not take the study: a file is missing, or no item fits a step."""
        for screen in self._examples():
            for sound in screen.sounds:
                if not sound.stimulus.file.startswith("limen:"):
                    inside(self._stimuli.folder, sound.stimulus.file)

    def prepare(self) -> None:
        """Render the sounds that do not depend on answers, so that no listener has to wait for them."""
        for screen in self._examples():
            effects = [effect for sound in screen.sounds for effect in sound.stimulus.effects]
            if all(effect.strength is not None for effect in effects):
                self.of(screen)

    def _examples(self) -> Iterator[Screen]:
        for group in self.study.cells:
            yield from design.screens(self.study, group, 0)


def _recipe(screen: Screen) -> str:
    return repr([sound.stimulus for sound in screen.sounds])
