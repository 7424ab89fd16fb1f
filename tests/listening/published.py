"""The study of Vadillo and Santana 2022 (https://arxiv.org/abs/2001.08444, section 5) taken by 36 listeners
whose answers have its counts.

What the paper leaves open (how many answers fell on each single rating, the confidences below "high" but for
one level) is chosen so that every number it prints comes out.
"""

import random
from pathlib import Path
from typing import Any

import answering

from limen.listening.analysis.export import rows
from limen.listening.study import Study
from limen.trials.base.screen import Screen

LEVELS = ("low", "medium", "high")
WORDS = ("silence", "unknown", "yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
ABX_RIGHT = {"low": 70, "medium": 59, "high": 40}
CONFIDENCE = {"low": (2, 5, 65), "medium": (10, 17, 45), "high": (52, 13, 7)}
"""Of 72 answers: low, medium, high."""
WRONG = {
    ("low", "clean"): 1,
    ("medium", "clean"): 4,
    ("high", "clean"): 10,
    ("low", "adversarial"): 0,
    ("medium", "adversarial"): 5,
    ("high", "adversarial"): 7,
}
RATINGS = {
    ("low", "clean"): (1, 2, 6, 30, 33),
    ("medium", "clean"): (8, 12, 13, 20, 19),
    ("high", "clean"): (10, 14, 14, 20, 14),
    ("low", "adversarial"): (30, 24, 8, 6, 4),
    ("medium", "adversarial"): (12, 17, 12, 20, 11),
    ("high", "adversarial"): (5, 10, 12, 25, 20),
}
"""Of 72 answers: 1 to 5."""


def study(listeners: int = 36) -> Study:
    """9 experiments of one loudness level each: 12 clips, of which 6 are clean, then 6 ABX trials and a catch
    trial at the end."""
    items: list[dict[str, Any]] = []
    for k in range(9):
        level = LEVELS[k // 3]
        for i in range(12):
            condition = ("clean", "adversarial")[i % 2]
            items.append(
                {
                    "id": f"{k}-{i}",
                    "files": {condition: f"{k}-{i}.wav"},
                    "answer": WORDS[i],
                    "group": f"experiment {k + 1}",
                    "factors": {"loudness": level, "part": 1},
                }
            )
        for i in range(6):
            items.append(
                {
                    "id": f"{k}-abx-{i}",
                    "files": {"clean": f"{k}-{i}-clean.wav", "adversarial": f"{k}-{i}-adv.wav"},
                    "group": f"experiment {k + 1}",
                    "factors": {"loudness": level, "part": 2},
                }
            )
    return Study.model_validate(
        {
            "name": "seed000",
            "title": "Spoken commands",
            "listeners": listeners,
            "items": items,
            "steps": [
                {"name": "naturalness", "where": {"part": 1}, "identify": True, "plays": 2},
                {
                    "name": "abx",
                    "where": {"part": 2},
                    "conditions": ["clean", "adversarial"],
                    "plays": 2,
                    "catch": 1,
                },
                "demographics",
            ],
            "exclude": [{"name": "incomplete"}, {"name": "catch_confidence", "values": ["high"]}],
            "hypotheses": [
                {"name": "Can the attack be heard?", "trial": "abx", "by": "loudness"},
                {
                    "name": "Is it inaudible?",
                    "trial": "abx",
                    "kind": "equivalent",
                    "by": "loudness",
                    "bound": 0.15,
                },
                {
                    "name": "Do adversarial clips sound less natural?",
                    "trial": "naturalness",
                    "kind": "different",
                },
            ],
        }
    )


def taken(folder: Path) -> tuple[Study, list[dict[str, Any]], str | None]:
    """The study, its rows and the fingerprint that was recorded, by way of the design and the database that a
    server uses."""
    plan = study()
    chance = random.Random(0)
    drawn: dict[Any, list[Any]] = {}
    for level in LEVELS:
        right = ABX_RIGHT[level]
        drawn["abx", level] = [True] * right + [False] * (72 - right)
        drawn["confidence", level] = [
            word for word, n in zip(LEVELS, CONFIDENCE[level], strict=True) for _ in range(n)
        ]
        for condition in ("clean", "adversarial"):
            wrong = WRONG[level, condition]
            drawn["word", level, condition] = [False] * wrong + [True] * (72 - wrong)
            drawn["rating", level, condition] = [
                str(k) for k, n in enumerate(RATINGS[level, condition], 1) for _ in range(n)
            ]
    for outcomes in drawn.values():
        chance.shuffle(outcomes)
    store = answering.fill(plan, folder / "study.db", 36, lambda _, screen: _answer(screen, drawn))
    assert not any(drawn.values()), "every outcome was given once"
    table = rows(store.answers(), store.listeners(), plan)
    recorded = store.fingerprint()
    store.close()
    return plan, table, recorded


def _answer(screen: Screen, drawn: dict[Any, list[Any]]) -> dict[str, Any]:
    if screen.kind == "demographics":
        return {"age": "24", "gender": "male"}
    if screen.role == "catch":
        return {"answer": "A", "confidence": "low"}
    level, condition = screen.facts["loudness"], screen.facts["condition"]
    if screen.kind == "abx":
        x = screen.truth["answer"]
        return {
            "answer": x if drawn["abx", level].pop() else "AB".replace(x, ""),
            "confidence": drawn["confidence", level].pop(),
        }
    word = screen.truth["word"]
    other = WORDS[(WORDS.index(word) + 1) % len(WORDS)]
    return {
        "word": word if drawn["word", level, condition].pop() else other,
        "naturalness": drawn["rating", level, condition].pop(),
    }
