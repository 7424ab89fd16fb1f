"""A clip that is an item of several groups is one clip: in the results, in how many listeners it takes, and
in the exported table."""

import re
from pathlib import Path
from typing import Any

import answering
import pytest

from limen.listening.analysis.analyse import analyse
from limen.listening.checks.planning import plan_findings
from limen.listening.design import screens
from limen.listening.study import Study, clips_of
from limen.trials.base.screen import Screen

CLIPS, GROUPS = 4, 3


def study(copied: bool) -> Study:
    """Three groups hear four clips each: all the same ones, or each its own."""
    items = []
    for k in range(CLIPS * GROUPS):
        file = k % CLIPS if copied else k
        files = {c: f"{c}{file}.wav" for c in ("clean", "adversarial")}
        items.append({"id": f"item {k}", "files": files, "group": f"g{k // CLIPS}"})
    asked = {"name": "Is it heard?", "trial": "abx", "kind": "above_chance"}
    return Study.model_validate(
        {"name": "s", "items": items, "steps": ["abx"], "listeners": 12, "hypotheses": [asked]}
    )


def right_more_often_of_the_first_clips(k: int, screen: Screen) -> dict[str, Any]:
    right = (k + int(screen.facts["item"].split()[1])) % CLIPS > 0
    x = screen.truth["answer"]
    return {"answer": x if right else "AB".replace(x, ""), "confidence": "low"}


def test_items_that_share_a_file_are_one_clip_and_so_are_copies_whose_content_is_known():
    items = study(copied=True).items
    assert clips_of(items) == {f"item {k}": f"item {k % CLIPS}" for k in range(12)}
    assert len(set(clips_of(study(copied=False).items).values())) == 12
    same = {f"{c}{k}.wav": f"{c}{k % 2}" for c in ("clean", "adversarial") for k in range(CLIPS)}
    assert set(clips_of(items, same).values()) == {"item 0", "item 1"}


@pytest.mark.parametrize(("copied", "clips"), [(True, CLIPS), (False, CLIPS * GROUPS)])
def test_results_count_a_clip_once_however_many_items_it_is(copied: bool, clips: int, tmp_path: Path):
    plan = study(copied)
    rows = answering.table(plan, tmp_path / "db" / "s.db", 12, right_more_often_of_the_first_clips)
    assert len({row["clip"] for row in rows}) == clips
    assert len({row["item"] for row in rows}) == 12
    whole = analyse(plan, rows).of("choices")[0].shares[0]
    assert (whole.n, whole.items) == (48, clips)


def test_copies_of_clips_are_not_planned_with_as_further_clips():
    listeners = []
    for copied in (True, False):
        plan = study(copied)
        ((_, text), *_) = plan_findings(
            plan, {group: screens(plan, group, 0) for group in plan.cells}, 0.05, 0.2
        )
        (found,) = re.findall(r"(\d+) listeners reach", text)
        listeners.append(int(found))
    assert listeners[0] > listeners[1]
