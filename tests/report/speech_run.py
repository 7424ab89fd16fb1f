"""Fabricated runs of recognisers: curves with their noise control, matrices of nets, targets, sizes,
languages."""

import math
from pathlib import Path
from typing import Any

from fabricated_run import SENTENCES, Fabricated

NETS = {"ctc_small": 412_000, "deepspeech2": 5_300_000, "whisper tiny.en": 39_000_000}
TARGET = "open the door"
VALUES = [20.0, 30.0, 40.0, 50.0]
SPEECH: dict[str, Any] = {"data": "digit_strings", "output": "transcript"}


def text_rows(
    said: list[str],
    heard: list[str],
    target: str | None = None,
    clean: list[str] | None = None,
    **more: list[Any],
) -> list[dict[str, Any]]:
    """Rows of a recogniser with exactly these texts; the word errors are counted position by position, so
    texts must be of one length."""
    rows = []
    for i, (a, b) in enumerate(zip(said, heard, strict=True)):
        words = a.split()
        errors, before = (
            sum(x != y for x, y in zip(words, heard.split(), strict=False))
            + abs(len(words) - len(heard.split()))
            for heard in (b, (clean or said)[i])
        )
        row: dict[str, Any] = {
            "id": f"clip{i:02d}",
            "label": a,
            "clean_prediction": (clean or said)[i],
            "adversarial_prediction": b,
        }
        row |= {} if target is None else {"target": target}
        row |= {
            "success": b == target if target is not None else a != b,
            "wer": errors / len(words),
            "clean_wer": before / len(words),
            "word_errors": float(errors),
            "clean_word_errors": float(before),
            "words": float(len(words)),
            "correct": float(a == b),
            "snr_db": 30.0 + i,
        }
        rows.append(row | {k: v[i] for k, v in more.items()})
    return rows


def garbled(share: float, count: int = 20) -> tuple[list[str], list[str]]:
    """Sentences, and what is heard when about this share of the words is wrong."""
    said = [SENTENCES[i % len(SENTENCES)] for i in range(count)]
    heard, k = [], 0
    for sentence in said:
        words = []
        for word in sentence.split():
            k += 1
            words.append("wolf" if (k * 0.6180339887498949) % 1 < share else word)
        heard.append(" ".join(words))
    return said, heard


def curve(slope: float, noise: float | None, top: float = 1.1) -> dict[str, Any]:
    """The result of constrained_accuracy on a recogniser."""
    wer = [top * math.exp(-((v - 20) / slope)) for v in VALUES]
    near = lambda values: {
        "wer_low": [max(0.0, v - 0.07) for v in values],
        "wer_high": [v + 0.07 for v in values],
    }
    accuracy = [max(0.0, 1 - 1.3 * v) for v in wer]
    result = {
        "constraint": "snr_db",
        "values": VALUES,
        "wer": wer,
        **near(wer),
        "cer": [v / 2 for v in wer],
        "n": 40,
    }
    result |= {
        "accuracy": accuracy,
        "low": [max(0.0, a - 0.1) for a in accuracy],
        "high": [min(1.0, a + 0.1) for a in accuracy],
    }
    if noise is not None:
        beside = [noise * math.exp(-((v - 20) / 8)) + 0.04 for v in VALUES]
        result["control"] = {
            "name": "gaussian noise",
            "wer": beside,
            **near(beside),
            "accuracy": [1 - v for v in beside],
        }
    return result


def curve_rows() -> list[dict[str, Any]]:
    """Each sentence at each value; one word in seven is misheard clean."""
    return [
        {
            "id": f"c{i}",
            "label": "one two three four five six seven",
            "clean_prediction": "one two three four five six eleven",
            "adversarial_prediction": "no",
            "value": v,
            "correct": False,
            "fooled": True,
        }
        for v in VALUES
        for i in range(3)
    ]


def transfer_result(proxy: str, victims: dict[str, tuple[float, float]]) -> dict[str, Any]:
    rates = lambda t, u: {
        "tasr_word": t,
        "tasr_char": min(1.0, t + 0.18),
        "uasr_word": u,
        "uasr_char": u / 2,
        "wer": 1.2 * u,
    }
    return {
        "proxy": proxy,
        "victims": {v: {**rates(t, u), "success": float(t == 1), "n": 20} for v, (t, u) in victims.items()},
    }


def language_rows(flip: str, share: float) -> list[dict[str, Any]]:
    """Ten clips in each of three languages; English ones stay English when the target is English."""
    rows = []
    for language, loss in (("it", 0.5), ("cs", 0.8), ("en", 0.3)):
        said, heard = garbled(loss if flip != language else 0.0, 10)
        flipped = [flip if i < 10 * share else language for i in range(10)]
        mine = text_rows(
            said,
            heard,
            language=[language] * 10,
            clean_language=[language] * 10,
            adversarial_language=flipped,
        )
        rows += [
            row | {"id": f"{language}/{row['id']}", "success": row["adversarial_language"] == flip}
            for row in mine
        ]
    return rows


def speech_run(folder: Path) -> Path:
    """Every page of a recogniser."""
    run = Fabricated(folder, name="speech")
    for k, (net, parameters) in enumerate(NETS.items()):
        facts = {"parameters": parameters}
        here: dict[str, Any] = {**SPEECH, "net": net, "facts": facts}
        run.cell(**here, rows=text_rows(*garbled(0.08 - 0.03 * k)), examples=0)
        for snr_db in (40, 30, 20):
            swept = {
                "budget": {"name": "snr", "snr_db": snr_db},
                "variable": {"attack.budget.snr_db": snr_db},
            }
            loud = (45 - snr_db) / 25
            run.cell(**here, **swept, attack="random_noise", rows=text_rows(*garbled(0.1 * loud)), examples=0)
            run.cell(
                **here,
                **swept,
                attack="pgd",
                steps=40,
                early_stop=True,
                rows=text_rows(*garbled((0.95 - 0.2 * k) * loud)),
                examples=1,
            )
        said, heard = garbled(0.2, 30)
        heard = [TARGET if i % 10 < 9 - 2 * k else h for i, h in enumerate(heard)]
        run.cell(
            **here,
            attack="cw",
            goal={"name": "transcript", "text": TARGET},
            budget={"name": "linf", "eps": 0.1},
            rows=text_rows(said, heard, TARGET),
            examples=2,
        )
    for k, net in enumerate(list(NETS)[:2]):
        for attack, slope, noise in (
            ("pgd", 18.0 - 4 * k, 0.3 - 0.1 * k),
            ("kenansville", 7.0, 0.3 - 0.1 * k),
        ):
            run.cell(
                **SPEECH,
                net=net,
                attack=attack,
                budget={"name": "snr", "snr_db": 30},
                rows=curve_rows(),
                examples=0,
                task_index=1,
                task={"name": "constrained_accuracy", "constraint": "snr", "how": "auto"},
                result=curve(slope, noise),
            )
    nets = list(NETS)
    for k, proxy in enumerate(nets):
        victims = {
            v: (1.0, 1.0) if v == proxy else (0.12 if abs(nets.index(v) - k) == 1 else 0.0, 0.4) for v in nets
        }
        run.cell(
            **SPEECH,
            net=proxy,
            attack="cw",
            goal={"name": "transcript", "text": TARGET},
            budget={"name": "linf", "eps": 0.1},
            task={"name": "transfer"},
            task_index=2,
            result=transfer_result(proxy, victims),
            examples=1,
            rows=text_rows(*garbled(0.3, 4), target=TARGET, victim=nets[:2] * 2),
        )
    run.cell(**SPEECH, net="whisper base", rows=language_rows("xx", 0.0), examples=0, task_index=3)
    for target, share in (("sr", 1.0), ("en", 0.7)):
        run.cell(
            **SPEECH,
            net="whisper base",
            attack=f"pgd_{target}",
            attack_name="pgd",
            goal={"name": "language", "target": target},
            budget={"name": "snr", "snr_db": 45},
            rows=language_rows(target, share),
            examples=1,
            task_index=3,
        )
    return run.close()
