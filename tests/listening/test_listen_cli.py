"""`limen listen` as a person types it: from a run to a study, from answers to results and to a table that
trains a metric."""

import csv
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import answering
import httpx2
import pytest
from studies import JND, write
from typer.testing import CliRunner

from limen.cli.app import app
from limen.listening.analysis.jnd import read_jnd
from limen.listening.server.store import Store
from limen.listening.study import read_study

RUNNER = CliRunner()


def listen(*arguments: object) -> str:
    done = RUNNER.invoke(app, ["listen", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def refused(*arguments: object) -> str:
    """The message that a mistake ends with."""
    done = subprocess.run(
        [sys.executable, "-m", "limen.cli.app", "listen", *map(str, arguments)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stdout
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def jnd(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A finished just-noticeable-difference study with its database."""
    folder = tmp_path_factory.mktemp("jnd")
    write(folder, JND, listeners=6, hypotheses=[])
    database = f"sqlite:///{folder / 'simulated.db'}"
    assert "6 simulated listeners finished" in listen("simulate", folder)
    return folder, database


def test_a_finished_study_becomes_a_results_page_with_its_numbers_beside_it(jnd):
    folder, database = jnd
    said = listen("analyze", folder, "--database", database)
    assert "6 simulated listeners took part" in said
    assert "noise" in (folder / "results_simulated.html").read_text()
    assert json.loads((folder / "results_simulated.json").read_text())["finished"] == 6


def test_simulated_answers_are_analysed_straight_after_simulate(tmp_path):
    folder = write(tmp_path / "s").parent
    assert f"limen listen analyze {folder} --simulated" in listen("simulate", folder, "--listeners", 4)
    assert "--simulated" in refused("analyze", folder)
    assert "--simulated" in refused("monitor", folder)
    assert "--simulated" in refused("export", folder, tmp_path / "people.csv")
    assert not (tmp_path / "people.csv").exists()
    assert "SIMULATED ANSWERS: 4 listeners are simulated" in listen("analyze", folder, "--simulated")
    assert "SIMULATED ANSWERS" in listen("monitor", folder, "--simulated")
    listen("export", folder, tmp_path / "answers.csv", "--simulated")
    with (tmp_path / "answers.csv").open() as file:
        assert {row["simulated"] for row in csv.DictReader(file)} == {"true"}


def test_results_of_simulated_answers_say_so_in_large_and_never_replace_those_of_people(tmp_path):
    folder = write(tmp_path / "s").parent
    (folder / "results.html").write_text("of people")
    listen("simulate", folder, "--listeners", 4)
    listen("analyze", folder, "--simulated")
    assert (folder / "results.html").read_text() == "of people"
    page = (folder / "results_simulated.html").read_text()
    assert "<title>SIMULATED" in page
    assert page.index("<strong>Simulated answers</strong>") < page.index('class="lede"')
    assert "nothing about what people hear" in page


def test_simulating_again_replaces_the_simulated_answers_but_never_those_of_people(tmp_path):
    folder = write(tmp_path / "s").parent
    listen("simulate", folder, "--listeners", 3)
    write(folder, steps=[{"name": "abx", "trials": 2}])  # another study: answers to the old one do not fit it
    listen("simulate", folder, "--listeners", 2)
    assert "2 of 20 listeners finished" in listen("monitor", folder, "--simulated")
    store = Store(folder / "simulated.db")
    store.join(
        read_study(folder / "study.yaml"), "key", None, {}, lambda study, counts: "", lambda group, number: 0
    )
    store.close()
    assert "contains answers of people (1), so it is not deleted" in refused("simulate", folder)


def test_answers_of_people_are_not_called_simulated(tmp_path):
    folder = write(tmp_path / "s", steps=[{"name": "abx", "trials": 2}]).parent
    plan = read_study(folder / "study.yaml")
    answering.fill(
        plan, folder / "small.db", 2, lambda k, screen: {"answer": "A", "confidence": "low"}
    ).close()
    assert "2 people took part" in listen("analyze", folder)
    assert "imulated" not in (folder / "results.html").read_text().split("<h2", 1)[0].split("</style>")[1]


def test_a_finished_study_becomes_a_table_of_pairs_that_trains_a_metric(jnd, tmp_path):
    folder, database = jnd
    listen("export", folder, tmp_path / "answers.csv", "--jnd", tmp_path / "pairs", "--database", database)
    judgments = read_jnd(tmp_path / "pairs" / "judgments.tsv")
    with (tmp_path / "answers.csv").open() as file:
        answers = [
            row for row in csv.DictReader(file) if (row["kind"], row["role"]) == ("same_different", "trial")
        ]
    assert len(judgments) == len(answers) > 6 * 4
    assert sum(j.label for j in judgments) == sum(row["choice"] == "different" for row in answers)
    assert all(j.reference.is_file() and j.test.is_file() for j in judgments)


def test_progress_is_shown_and_a_closed_study_says_so(jnd):
    folder, database = jnd
    assert "6 of 6 listeners finished" in listen("monitor", folder, "--database", database)
    listen("close", folder, "--database", database)
    assert "closed" in listen("monitor", folder, "--database", database)


def test_a_study_without_answers_says_how_to_get_some(tmp_path):
    write(tmp_path)
    assert "limen listen serve" in refused("analyze", tmp_path)
    assert not list(tmp_path.glob("*.db"))


def test_a_study_that_is_not_there_says_how_to_write_one(tmp_path):
    assert "limen listen new" in refused("check", tmp_path / "none")


def test_templates_are_listed():
    assert all(
        name in listen("new", "x", "--template", "help")
        for name in ("abx", "mushra", "seed000", "same_different_jnd")
    )


def test_a_new_study_has_a_seed_of_its_own_and_a_completion_code_which_the_operator_is_told(tmp_path):
    said = [listen("new", tmp_path / name, "--template", "mushra") for name in ("one", "two")]
    plans = [read_study(tmp_path / name / "study.yaml") for name in ("one", "two")]
    codes = [plan.recruitment.code for plan in plans]
    assert plans[0].seed != plans[1].seed  # right answers follow from it
    assert all(re.fullmatch("C[A-Z2-9]{7}", code) for code in codes)
    assert codes[0] != codes[1]
    assert all(f"completion code: {code}  (paste it" in text for code, text in zip(codes, said, strict=True))


def test_errors_of_a_study_are_printed_and_end_with_exit_code_2(tmp_path):
    path = write(tmp_path)
    (tmp_path / "audio" / "zebra_7f_0.wav").unlink()
    done = RUNNER.invoke(app, ["listen", "check", str(path)])
    assert done.exit_code == 2
    assert "error" in done.output
    assert "zebra_7f_0.wav" in done.output
    assert "cannot be served" in refused("serve", tmp_path)
    assert "got 6 characters, expected at least 16" in refused("serve", tmp_path, "--token", "sesame")


def test_serve_answers_on_its_port_until_it_is_told_to_stop(tmp_path):
    write(tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "limen.cli.app",
        "listen",
        "serve",
        str(tmp_path),
        "--port",
        str(port),
        "--token",
        "open sesame, open",
    ]
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    try:
        for _ in range(600):
            try:
                page = httpx2.get(f"http://127.0.0.1:{port}/").text
                break
            except httpx2.TransportError:
                assert server.poll() is None, "the server ended by itself"
                time.sleep(0.1)
        assert "<html" in page
        progress = httpx2.get(
            f"http://127.0.0.1:{port}/api/admin/progress",
            headers={"Authorization": "Bearer open sesame, open"},
        )
        assert progress.json()["finished"] == 0
    finally:
        server.send_signal(signal.SIGINT)
        said = server.communicate(timeout=30)[0]
    assert f"http://localhost:{port}/" in said
    assert re.search(r"completion code: [A-Z2-7]{8}  \(paste it into the recruitment site", said)
