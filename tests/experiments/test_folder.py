"""Files of a run folder: tables, unfinished and damaged cells, summary of a run."""

import json

import pytest
import torch

from limen.core.errors import UserError
from limen.experiments.file import Experiment
from limen.experiments.folder import (
    close_run,
    drop_unfinished,
    finish_cell,
    is_done,
    read_table,
    start_cell,
    write_table,
)
from limen.experiments.plan import plan
from limen.tasks.base.cell import Example, Outcome

NET = {"model": {"name": "mlp", "weights": "random"}, "data": {"name": "digits", "limit": 2}}
EXPERIMENT = Experiment.model_validate(
    {
        "name": "t",
        "audit": False,
        "tasks": [{"nets": [NET], "defenses": [None, {"name": "bit_depth"}]}],
    }
)
FACTS = {"status": "done", "error": None, "kind": "picture", "output": "class"}


def finished(run, cell, status="done", rows=1):
    outcome = Outcome(rows=[{"id": f"s{i}", "correct": i == 0, "missing": {}} for i in range(rows)])
    finish_cell(run, cell, start_cell(run, cell), {**FACTS, "status": status}, outcome, [])


def test_a_table_has_a_column_for_every_key_and_null_for_what_a_row_lacks(tmp_path):
    rows = [
        {"id": "a", "n": 1, "share": 0.5, "right": True, "missing": {}},
        {"id": "b", "share": 1, "late": 2, "missing": {"late": "too short"}},
    ]
    write_table(tmp_path / "rows.parquet", rows)
    first, second = read_table(tmp_path / "rows.parquet")
    assert first == {"id": "a", "n": 1, "share": 0.5, "right": True, "missing": None, "late": None}
    assert second["share"] == 1.0
    assert isinstance(second["share"], float)
    assert (second["n"], second["right"], second["late"]) == (None, None, 2)
    assert json.loads(second["missing"]) == {"late": "too short"}


def test_values_of_several_types_are_written_as_text(tmp_path):
    write_table(tmp_path / "rows.parquet", [{"label": 3}, {"label": "go"}, {"label": None}])
    assert [row["label"] for row in read_table(tmp_path / "rows.parquet")] == ["3", "go", None]


def test_a_table_that_cannot_be_read_is_missing_or_damaged(tmp_path):
    with pytest.raises(UserError, match=r"rows\.parquet is missing"):
        read_table(tmp_path / "rows.parquet")
    (tmp_path / "rows.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(UserError, match=r"rows\.parquet is damaged.*--resume"):
        read_table(tmp_path / "rows.parquet")


def test_an_unfinished_cell_keeps_only_its_checkpoint(tmp_path):
    cell = plan(EXPERIMENT)[0]
    folder = start_cell(tmp_path, cell)
    (folder / "checkpoint.pt").write_text("weights")
    (folder / "rows.parquet").write_text("half")
    (folder / "examples").mkdir()
    assert start_cell(tmp_path, cell) == folder
    assert [path.name for path in folder.iterdir()] == ["checkpoint.pt"]
    drop_unfinished(tmp_path, [cell])
    assert [path.name for path in folder.iterdir()] == ["checkpoint.pt"]
    (folder / "checkpoint.pt").unlink()
    drop_unfinished(tmp_path, [cell])
    assert not folder.exists()


def test_a_finished_cell_has_no_checkpoint_and_replaces_a_failed_one(tmp_path):
    cell = plan(EXPERIMENT)[0]
    finished(tmp_path, cell, status="failed", rows=0)
    assert not is_done(tmp_path, cell, pytest.fail)
    (start_cell(tmp_path, cell) / "checkpoint.pt").write_text("weights")
    finished(tmp_path, cell)
    assert is_done(tmp_path, cell, pytest.fail)
    names = {path.name for path in (tmp_path / "cells" / cell.id).iterdir()}
    assert names == {"cell.json", "rows.parquet", "summary.json", "examples.json"}
    assert [path.name for path in (tmp_path / "cells").iterdir()] == [cell.id]


@pytest.mark.parametrize("name", ["cell.json", "summary.json", "examples.json", "rows.parquet"])
@pytest.mark.parametrize("content", [None, b"", b"[1, 2", b"3"])
def test_a_cell_with_a_damaged_file_is_reported_and_not_done(name, content, tmp_path):
    cell, reported = plan(EXPERIMENT)[0], []
    finished(tmp_path, cell)
    path = tmp_path / "cells" / cell.id / name
    path.unlink() if content is None else path.write_bytes(content)
    assert not is_done(tmp_path, cell, reported.append)
    assert reported == [f"cells/{cell.id} is damaged and is computed again: mlp | none | none"]


def test_a_run_is_summarised_in_the_order_of_its_plan_without_unfinished_cells(tmp_path):
    cells = plan(EXPERIMENT)
    finished(tmp_path, cells[1], rows=2)
    assert [cell["order"] for cell in close_run(tmp_path, EXPERIMENT, cells)["cells"]] == [1]
    finished(tmp_path, cells[0], rows=1)
    summary = close_run(tmp_path, EXPERIMENT, cells)
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    assert [(cell["id"], cell["summary"]["n"]) for cell in summary["cells"]] == [
        (cells[0].id, 1),
        (cells[1].id, 2),
    ]
    rows = read_table(tmp_path / "rows.parquet")
    assert [(row["cell"], row["id"]) for row in rows] == [
        (cells[0].id, "s0"),
        (cells[1].id, "s0"),
        (cells[1].id, "s1"),
    ]
    assert rows[1]["defense"] == cells[1].labels["defense"]


def test_an_example_is_written_as_three_pictures_with_its_row(tmp_path):
    cell, clean = plan(EXPERIMENT)[0], torch.full((1, 4, 4), 0.25)
    row = {"id": "s0", "label": 1, "success": True, "linf": 0.5, "missing": {}}
    example = Example(id="s0", clean=clean, adversarial=clean + 0.5, row=row)
    folder = start_cell(tmp_path, cell)
    finish_cell(tmp_path, cell, folder, FACTS, Outcome(rows=[row], examples=[example]), [])
    (written,) = json.loads((tmp_path / "cells" / cell.id / "examples.json").read_text())
    assert (written["id"], written["label"], written["success"]) == ("s0", 1, True)
    assert written["metrics"] == {"linf": 0.5}
    assert set(written["files"]) == {"clean", "perturbation", "adversarial"}
    for path in written["files"].values():
        assert (tmp_path / "cells" / cell.id / path).is_file()
