"""Short sentences and digit strings with their transcripts, for recognisers that must spell more than ten
words, spoken by a synthesiser.

Questions, commands and statements of two to seven words, built from templates and about three hundred common
words; a quarter are strings of spoken digits. The split of a text depends on its letters alone, so no text is
in two splits, for any seed. Each voice is in one split only. Clip number i depends on the seed, the split and
i alone.
"""

import re
from collections.abc import Sequence
from functools import cache

import numpy as np
from pydantic import Field

from limen.core import seeds
from limen.data.base.corpus import DrawnOptions, corpus
from limen.data.base.dataset import Dataset
from limen.data.base.voices import at_level, loudness_db, mix, say, stream
from limen.data.digit_strings import DIGITS

SIZES = {"train": 6000, "valid": 200, "test": 300}
VERSION = 1
"""Increased when the samples change."""

TEMPLATES = (
    # questions
    "where is the {thing}",
    "where did {they} put the {thing}",
    "who {did} the {thing}",
    "what's in the {room}",
    "is the {thing} {state}",
    "when does the {event} begin",
    "can you {do} the {thing}",
    "do you like {colour} {clothes}",
    "did {name} {do} the {thing}",
    "why are {they} so {mood}",
    "would you like some {food}",
    "how far is the {place}",
    "what did {name} say",
    "is it {weather} in {city}",
    "how many {plural} are there",
    "has {name} seen my {clothes}",
    "who wants {food} and {food}",
    "will the {event} be {quality}",
    # commands
    "{do} the {thing} {time}",
    "please {do} the {thing}",
    "don't {do} the {thing}",
    "turn on the {device}",
    "turn off the {device}",
    "call {name} {time}",
    "send a {message} to {name}",
    "put the {thing} in the {room}",
    "play {music} in the {room}",
    "stop the {music}",
    "let's go to the {place}",
    "bring {food} from the {place}",
    "wash the {colour} {clothes}",
    "tell {name} about the {event}",
    "wake me up {time}",
    "take the {plural} to the {room}",
    "show me the {plural}",
    "never {do} the {thing} alone",
    # statements
    "{they} {did} the {thing}",
    "{name} {did} the {thing} {time}",
    "the {colour} {thing} is {state}",
    "my {family} lives near the {place}",
    "it's {weather} in {city} {time}",
    "i can't find my {clothes}",
    "{name} has {count} {plural}",
    "we'll meet at the {place}",
    "i'm {mood} {time}",
    "there are {count} {plural} here",
    "the {event} was {quality}",
    "my {family} is {mood}",
    "{they} are in {city}",
    "{they} don't like {food}",
    "{name} and {name} are {mood}",
    "her {family} made {food}",
    "his {clothes} are {colour}",
    "the {family} {did} the {thing}",
    "{they} went to the {place} {time}",
    "that {event} is very {quality}",
    "{food} is {quality}",
)

WORDS = {
    name: tuple(words.split())
    for name, words in {
        "thing": "door window box bottle book letter table garden bridge lamp kettle camera clock engine "
        "picture mirror ladder key wallet basket blanket cupboard fence machine",
        "do": "open close move check clean paint fix sell carry hide lift watch find bring keep",
        "did": "opened closed moved checked cleaned painted fixed sold carried found dropped broke forgot "
        "wanted noticed",
        "state": "open closed broken clean dirty empty ready heavy locked missing",
        "they": "they we you children people visitors",
        "name": "anna peter mary john sarah david maria thomas emma oliver lucy henry",
        "family": "mother father brother sister daughter cousin uncle friend doctor teacher neighbour",
        "room": "kitchen bedroom cellar office hall bathroom attic garage",
        "place": "station airport school hospital market river church museum forest beach castle library "
        "harbour village",
        "city": "london paris berlin madrid lisbon oslo vienna boston chicago dublin",
        "event": "meeting concert wedding lesson party film game journey race holiday",
        "quality": "good bad great boring wonderful terrible quiet expensive short strange",
        "mood": "happy tired angry hungry busy late sad afraid proud alone",
        "weather": "cold warm raining snowing windy cloudy foggy dark sunny",
        "time": "now today tonight tomorrow again later yesterday soon early on_monday on_friday "
        "every_morning after_lunch before_dinner",
        "colour": "black white green yellow brown purple grey orange silver",
        "clothes": "shoes gloves shirts socks glasses jackets boots trousers",
        "food": "bread cheese coffee water milk sugar butter apples soup rice honey chicken salad chocolate "
        "potatoes",
        "device": "light radio heating oven television fan computer alarm music",
        "music": "music songs jazz news piano drums",
        "message": "message picture letter card present",
        "plural": "dogs cats horses birds cars trains tickets flowers pages letters people minutes windows "
        "stars boats",
        "count": "two three four five six seven eight nine ten twelve twenty many some no",
    }.items()
}
"""An underscore is a space inside an entry."""


class ShortSentences(DrawnOptions):
    size: int | None = Field(default=None, ge=1)
    """Clips of the split; null: 6000 in train, 200 in valid, 300 in test."""


def short_sentences(options: ShortSentences) -> Dataset:
    seed, split, n = options.corpus_seed, options.split, options.size or SIZES[options.split]
    return corpus(
        "short_sentences",
        options,
        ids={("sentence", i): f"{split}/{i:05d}" for i in range(n)},
        make=lambda key: make(seed, split, key[1]),
        truth=lambda key: transcript(seed, split, key[1]),
        recipe={"version": VERSION, "seed": seed, "size": n},
    )


@cache  # a clip is loaded once per epoch
def transcript(seed: int, split: str, i: int) -> str:
    """The first of the texts drawn for this clip that belongs to the split."""
    rng = stream(seed, "short_sentences", "words", split, i)
    while True:
        text = _digits(rng) if rng.random() < 0.25 else _sentence(rng)
        if split_of(text) == split:
            return text


def split_of(text: str) -> str:
    """The split of a text: eight of ten texts are for training, one each for validation and test."""
    return {0: "test", 1: "valid"}.get(seeds.number(0, "short_sentences", text) % 10, "train")


def _digits(rng: np.random.Generator) -> str:
    return " ".join(DIGITS[k] for k in rng.integers(len(DIGITS), size=int(rng.integers(2, 6))))


def _sentence(rng: np.random.Generator) -> str:
    def one(of: Sequence[str]) -> str:
        return of[int(rng.integers(len(of)))]

    return re.sub(r"\{(\w+)\}", lambda slot: one(WORDS[slot[1]]), one(TEMPLATES)).replace("_", " ")


def make(seed: int, split: str, i: int) -> np.ndarray:
    """(T,) int16: the sentence with 50 to 200 ms of background before and after."""
    rng = stream(seed, "short_sentences", split, i)
    speech = say(transcript(seed, split, i), split, rng, word_gap=int(rng.integers(0, 3)))
    before, after = (int(k) for k in rng.integers(800, 3201, 2))
    return at_level(mix(speech, before, before + len(speech) + after, seed, split, rng), loudness_db(rng))
