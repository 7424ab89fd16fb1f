"""A listening study with hostile names and every trial type, taken by listeners who answer at random; rows as
the export gives them."""

import random
from typing import Any

from limen.listening import design
from limen.listening.analysis.export import rows
from limen.listening.study import Study
from limen.trials.base.screen import Screen, Widget

NASTY = '<script>window.hacked=1</script><img src=x onerror="window.hacked=1">"\'&é漢字🎧'
STEPS: list[Any] = [
    {"name": "abx", "trials": 4, "catch": 1},
    {"name": "naturalness", "trials": 4, "identify": True},
    {"name": "identification", "trials": 4},
    {"name": "mushra", "trials": 2},
    {"name": "preference", "trials": 4, "indifferent": "neither"},
    {"name": "transcription", "trials": 2},
    {
        "name": "same_different",
        "axes": ["noise", "gain"],
        "adaptive": {"max_trials": 9},
        "same": 1,
        "sentinels": 1,
    },
]


def study(steps: list[Any] = STEPS, n: int = 6, nasty: bool = True, **more: Any) -> Study:
    extra = NASTY if nasty else ""
    items = [
        {
            "id": f"item {k} {extra}",
            "files": {c: f"{c[:5]}{k}.wav" for c in (f"clean{extra}", "pgd", "cw")},
            "answer": f"word {k % 3} {extra}",
            "group": f"group {k % 2}",
            "factors": {f"loudness {extra}": f"{('low', 'high')[k % 2]} {extra}"},
        }
        for k in range(n)
    ]
    content = {
        "name": "hostile",
        "title": f"A study {extra}",
        "items": items,
        "steps": steps,
        "listeners": 12,
        "exclude": [
            {"name": "incomplete"},
            {"name": "catch_confidence", "values": ["high", NASTY]},
            {"name": "too_fast"},
        ],
        "hypotheses": [
            {"name": f"Can it be heard? {extra}", "trial": "abx"},
            {
                "name": "Is it unnatural?",
                "trial": "naturalness",
                "kind": "different",
                "by": f"loudness {extra}",
            },
            {"name": "Is it worse?", "trial": "mushra", "kind": "different"},
        ],
    }
    return Study.model_validate(content | more)


def taken(plan: Study, listeners: int = 12, seed: int = 0) -> list[dict[str, Any]]:
    people, answers = [], []
    for k in range(listeners):
        group, number = plan.cells[k % len(plan.cells)], k // len(plan.cells)
        people.append(
            {"id": k + 1, "group": group, "number": number, "finished_at": None if k == 3 else 1.8e9}
        )
        planned, past, chance = design.screens(plan, group, number), [], random.Random(f"{seed} {k}")
        while (coming := design.next_screen(plan, planned, past, k)) is not None:
            position, screen = coming
            answer = {w.name: _value(w, screen, chance) for w in screen.widgets}
            past.append(design.StoredAnswer(position, answer, screen.facts))
            played = [
                {
                    "label": s.label,
                    "rate_hz": 48_000,
                    "plays": 2,
                    "played_s": 0.7,
                    "proved": chance.random() < 0.95,
                }
                for s in screen.sounds
            ]
            answers.append(
                {
                    "listener": k + 1,
                    "position": position,
                    "step": screen.step,
                    "kind": screen.kind,
                    "role": screen.role,
                    "answer": answer,
                    "facts": screen.facts,
                    "truth": screen.truth,
                    "correct": screen.correct(answer),
                    "playback": played,
                    "response_ms": 4000 * chance.lognormvariate(0, 0.4),
                    "received_at": 1.8e9 + 86_400 * k + 6 * position,
                }
            )
    return rows(answers, people, plan)


def _value(w: Widget, screen: Screen, chance: random.Random) -> Any:
    if w.each_sound:
        return {s.label: chance.randrange(0, 101) for s in screen.sounds if s.rated}
    if w.kind == "type":
        return chance.choice([NASTY, screen.facts.get("spoken") or "word"])
    if screen.kind == "same_different":
        return "different" if screen.facts.get("strength", 0) > chance.gauss(45, 8) else "same"
    if w.other and chance.random() < 0.2:
        return f"other:{NASTY}"
    return (
        chance.choice(w.choices).value
        if chance.random() < 0.5 or w.name not in screen.truth
        else screen.truth[w.name]
    )
