"""What `limen plan` says a run will take: for every kind of net, as a range, and without a crash."""

import re
import wave

import pytest
import torch
import yaml
from tiny_whisper import write_folder
from typer.testing import CliRunner

from limen.cli.app import app
from limen.experiments.estimate import Span, threads_of, total

SNR, LINF = {"name": "snr", "snr_db": 40}, {"name": "linf", "eps": 0.05}
PGD = {"name": "pgd", "steps": 2, "budget": LINF}
DIGITS = {"name": "digits", "limit": 3}
RANGE = re.compile(r"\d+ cells, about [\d.]+( s| min)? to [\d.]+ (s|min) on this machine with 1 job of")


@pytest.fixture
def plan(tmp_path):
    """The words of `limen plan` for a task."""
    threads = torch.get_num_threads()

    def planned(*options, **task):
        path = tmp_path / "experiment.yaml"
        path.write_text(
            yaml.safe_dump({"audit": task.pop("audit", False), "tasks": [{"metrics": [], **task}]})
        )
        return CliRunner().invoke(app, ["plan", str(path), "--jobs", "1", *options])

    yield planned
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("model", "data", "budget"),
    [
        ("cnn", "digits", LINF),
        ("mlp", "digits", LINF),
        ("res8", "spoken_words", SNR),
        ("ctc_small", "digit_strings", SNR),
        ("deepspeech2", "short_sentences", SNR),
        ("lstm_seq2seq", "short_sentences", SNR),
        ("transformer_seq2seq", "short_sentences", SNR),
        ("wav2vec2_small", "digit_strings", SNR),
    ],
)
def test_every_kind_of_net_is_estimated_as_a_range(model, data, budget, plan):
    net = {"model": {"name": model}, "data": {"name": data, "limit": 2}}
    done = plan(nets=[net], attacks=[None, {"name": "pgd", "steps": 2, "budget": budget}])
    assert done.exit_code == 0, done.output
    assert RANGE.search(done.output), done.output
    assert "fails" not in done.output


def test_whisper_is_estimated_too(plan, tmp_path):
    write_folder(tmp_path / "tiny")
    for name in "ab":
        with wave.open(str(tmp_path / f"{name}.wav"), "wb") as file:
            file.setparams((1, 2, 16_000, 0, "NONE", ""))
            file.writeframes(
                (torch.randn(12_000, generator=torch.Generator().manual_seed(0)) * 2000)
                .short()
                .numpy()
                .tobytes()
            )
    (tmp_path / "table.csv").write_text("file,transcript\na.wav,ok go\nb.wav,now\n")
    net = {
        "model": {"name": "whisper", "weights": str(tmp_path / "tiny"), "max_tokens": 4},
        "data": {"name": "transcripts", "path": str(tmp_path / "table.csv")},
    }
    done = plan(nets=[net], attacks=[{"name": "pgd", "steps": 2, "budget": SNR}, {"name": "cw", "steps": 2}])
    assert done.exit_code == 0, done.output
    assert RANGE.search(done.output), done.output
    assert "fails" not in done.output


def test_audits_trainings_and_crafted_perturbations_are_estimated(plan):
    net = {"model": {"name": "mlp"}, "data": DIGITS}
    universal = {"name": "universal", "samples": 8, "epochs": 1, "budget": LINF}
    audited = plan(nets=[net], attacks=[PGD, universal], audit=True)
    assert audited.exit_code == 0, audited.output
    assert re.search(r"audit .* 3 ", audited.output)
    assert "3 cells" in audited.output
    untrained = {"model": {"name": "mlp", "weights": "random"}, "data": DIGITS}
    trained = plan(task={"name": "train", "epochs": 3}, nets=[untrained])
    assert trained.exit_code == 0, trained.output
    assert RANGE.search(trained.output), trained.output


def test_a_cell_that_cannot_run_is_named_with_its_reason_and_the_others_are_estimated(plan):
    net = {"model": {"name": "mlp"}, "data": DIGITS}
    done = plan(nets=[net], attacks=[PGD, {"name": "imperceptible"}])
    assert done.exit_code == 2, done.output
    assert "takes pictures" in done.output
    assert RANGE.search(done.output), done.output


def test_quick_lists_the_cells_and_opens_no_net(plan):
    done = plan(
        "--quick",
        nets=[{"model": {"name": "mlp", "weights": "nowhere.safetensors"}, "data": DIGITS}],
        attacks=[PGD],
    )
    assert done.exit_code == 0, done.output
    assert "1 cells" in done.output
    assert "about" not in done.output.splitlines()[-1]


def test_a_span_is_said_in_the_unit_of_its_end():
    assert str(Span(20.4, 39.7)) == "20 to 40 s"
    assert str(Span(0.04, 0.31)) == "0 to 0.3 s"
    assert str(Span(48, 372)) == "48 s to 6.2 min"
    assert str(Span(3000, 9000)) == "50 min to 2.5 h"
    assert str(Span(12.1, 12.3)) == "12 s"


def test_jobs_share_the_cells_but_none_is_shared_by_two():
    alike, one_long = [Span(10, 20)] * 4, [Span(1, 2)] * 3 + [Span(30, 60)]
    assert total(alike, 2, 0).low == pytest.approx(total(alike, 1, 0).low - 20)
    assert total(alike, 2, 0).high == pytest.approx(total(alike, 1, 0).high - 40)
    assert total(one_long, 4, 0).high == pytest.approx(total(one_long, 2, 0).high)
    assert total(alike, 2, 5).low == pytest.approx(total(alike, 2, 0).low + 5)


def test_ranges_add_up_and_scale():
    assert Span(1, 2) + Span(3, 5) == Span(4, 7)
    assert Span(1, 2).times(3) == Span(3, 6)
    assert Span(1, 2).times(0.5, 4) == Span(0.5, 8)


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (Span(0, 0), "0 s"),
        (Span(61, 114), "61 to 110 s"),
        (Span(119, 130), "2 to 2.2 min"),
        (Span(7300, 7300), "2 h"),
        (Span(100_000, 400_000), "1.2 to 4.6 days"),
    ],
)
def test_a_range_is_written_with_two_digits(span, text):
    assert str(span) == text


def test_a_run_is_at_least_its_longest_cell_the_report_and_the_start():
    assert total([Span(10, 20), Span(30, 60)], 1, 0) == Span(40 + 1.1, 80 + 3.3)
    assert total([Span(10, 20), Span(30, 60)], 9, 2) == Span(30 + 1.1 + 2, 60 + 3.3 + 6)


def test_jobs_share_the_cores_and_each_has_a_thread(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert [threads_of(jobs) for jobs in (1, 2, 3, 8, 20)] == [8, 4, 2, 1, 1]
