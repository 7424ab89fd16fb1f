"""`limen measure`: pairs of files made by anyone, right ones and wrong ones."""

import csv
import io
import json
import math

import numpy as np
import pytest
import soundfile
import torch
from PIL import Image
from rich.console import Console

from limen.core.errors import UserError
from limen.measure import command, measure_files, print_tables, write_csv, write_html, write_json
from limen.measure.pairs import delay

RATE_HZ = 16000
DISTANCES = ["snr_db", "peak_db", "l2", "linf"]


def voice(seconds=1.0, rate_hz=RATE_HZ, seed=0):
    t = np.arange(int(seconds * rate_hz)) / rate_hz
    tones = sum(np.sin(2 * math.pi * 120 * k * t) / k for k in range(1, 20))
    return 0.15 * tones * np.clip(np.sin(2 * math.pi * 2.3 * t), 0, 1) + 0.001 * np.random.default_rng(
        seed
    ).standard_normal(len(t))


def noise(n, seed=1):
    return np.random.default_rng(seed).standard_normal(n)


def write(path, x, rate_hz=RATE_HZ, **how):
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, x, rate_hz, **how)
    return path


def paint(path, pixels, **how):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(pixels, np.uint8)).save(path, **how)
    return path


@pytest.fixture
def folders(tmp_path):
    """Two folders of three pairs; one partner has another format, one file of each side has none."""
    x, v = voice(), 0.005 * noise(RATE_HZ)
    for name, amount in (("a.wav", 1), ("sub/b.wav", 2), ("c.flac", 4)):
        write(tmp_path / "clean" / name, x)
        write(
            tmp_path / "adversarial" / name.replace(".wav", ".flac" if name == "a.wav" else ".wav"),
            x + amount * v,
        )
    write(tmp_path / "clean" / "lonely.wav", x)
    write(tmp_path / "adversarial" / "other.wav", x)
    (tmp_path / "clean" / "readme.txt").write_text("not audio")
    return tmp_path / "clean", tmp_path / "adversarial"


def test_two_files_give_one_row_with_the_numbers_of_the_definition(tmp_path):
    x = (voice() * 32768).round() / 32768
    v = np.round(noise(RATE_HZ) * 100) / 32768
    one, other = write(tmp_path / "one.wav", x), write(tmp_path / "another_name.wav", x + v)
    (row,) = measure_files(one, other).rows
    assert row["id"] == "one.wav"
    assert row["snr_db"] == pytest.approx(10 * math.log10((x**2).sum() / (v**2).sum()), abs=1e-3)
    assert row["linf"] == pytest.approx(np.abs(v).max())
    assert row["peak_db"] == pytest.approx(20 * math.log10(np.abs(v).max() / np.abs(x).max()), abs=1e-3)
    assert row["note"] == ""
    assert {"peak_db_vocal", "mean_db_background", "pesq", "stoi", "loudness_db"} <= row.keys()


def test_folders_are_matched_by_path_whatever_the_suffix_and_nothing_is_dropped_silently(folders):
    measured = measure_files(*folders, metrics=DISTANCES)
    assert [r["id"] for r in measured.rows] == ["a.wav", "c.flac", "sub/b.wav"]
    assert sorted(p.rsplit("/", 1)[1] for p in measured.unmatched) == ["lonely.wav", "other.wav"]
    by_name = {r["id"]: r["snr_db"] for r in measured.rows}
    assert by_name["a.wav"] - by_name["sub/b.wav"] == pytest.approx(20 * math.log10(2), abs=0.05)
    assert measured.summary()["snr_db"]["n"] == 3


def test_two_candidates_of_one_stem_are_left_unmatched(tmp_path):
    for name in ("a.wav", "b.wav"):
        write(tmp_path / "clean" / name, voice())
    for name in ("a.flac", "a.aiff", "b.wav"):
        write(tmp_path / "adversarial" / name, voice())
    measured = measure_files(tmp_path / "clean", tmp_path / "adversarial", metrics=["l2"])
    assert [r["id"] for r in measured.rows] == ["b.wav"]
    assert len(measured.unmatched) == 3


def test_an_identical_pair_has_no_snr_and_the_best_scores(tmp_path):
    one = write(tmp_path / "a.wav", voice(2))
    (row,) = measure_files(one, one).rows
    assert row["l2"] == 0
    assert row["pesq"] == pytest.approx(4.644, abs=1e-2)
    assert row["stoi"] == pytest.approx(1)
    assert row["snr_db"] is None
    assert row["missing"]["snr_db"] == "nothing was changed"


def test_another_rate_is_brought_to_the_clean_one_and_noted(tmp_path):
    clean, other = (
        write(tmp_path / f"{hz}.wav", 0.5 * np.sin(2 * math.pi * 440 * np.arange(hz) / hz), hz)
        for hz in (RATE_HZ, 44100)
    )
    (row,) = measure_files(clean, other, metrics=DISTANCES).rows
    assert "resampled from 44100 to 16000 Hz" in row["note"]
    assert row["snr_db"] > 25  # only the ends differ


def test_stereo_is_averaged_and_noted(tmp_path):
    x = voice()
    clean, other = write(tmp_path / "a.wav", x), write(tmp_path / "b.wav", np.stack([x + 0.01, x - 0.01], 1))
    (row,) = measure_files(clean, other, metrics=DISTANCES).rows
    assert "channels averaged (1 clean, 2 adversarial)" in row["note"]
    assert row["linf"] < 1e-4


@pytest.mark.parametrize("suffix", [".mp3", ".ogg", ".flac"])
def test_lossy_and_lossless_formats_are_read(tmp_path, suffix):
    x = voice(1.5)
    clean, other = write(tmp_path / "a.wav", x), write(tmp_path / f"b{suffix}", x)
    (row,) = measure_files(clean, other, metrics=DISTANCES, align=True).rows
    assert row["snr_db"] is None or row["snr_db"] > 10


def test_a_few_samples_more_are_cut_and_noted(tmp_path):
    x = voice()
    clean, other = write(tmp_path / "a.wav", x), write(tmp_path / "b.wav", np.concatenate([x, np.zeros(300)]))
    (row,) = measure_files(clean, other, metrics=DISTANCES).rows
    assert row["note"] == "adversarial cut by 300 samples at its end"
    assert row["l2"] == 0


def test_very_different_lengths_are_an_error_that_offers_alignment(tmp_path):
    clean, other = write(tmp_path / "a.wav", voice(1)), write(tmp_path / "b.wav", voice(1.5))
    with pytest.raises(UserError, match=r"lasts 1\.000 s and .* 1\.500 s.*--align"):
        measure_files(clean, other)


@pytest.mark.parametrize("lag", [-700, -1, 0, 1, 1105])
def test_alignment_finds_the_delay_of_a_codec(tmp_path, lag):
    x = voice(1, seed=3) + 0.05 * noise(RATE_HZ)
    later = np.concatenate([np.zeros(max(0, lag)), x[max(0, -lag) :]])
    assert delay(torch.tensor(x), torch.tensor(later)) == lag
    clean, other = write(tmp_path / "a.wav", x), write(tmp_path / "b.wav", later)
    (row,) = measure_files(clean, other, metrics=DISTANCES, align=True).rows
    assert row["linf"] < 1e-4
    assert ("aligned" in row["note"]) == (lag != 0)


def test_silence_has_no_delay():
    assert delay(torch.zeros(100), torch.zeros(120)) == 0


def test_pictures_are_measured_in_units_of_their_range(tmp_path):
    x = np.full((5, 4, 3), 100)
    x_adv = x.copy()
    x_adv[2, 1, 0] += 51
    (row,) = measure_files(paint(tmp_path / "a.png", x), paint(tmp_path / "b.bmp", x_adv)).rows
    assert (row["l0"], row["linf"], row["l2"]) == pytest.approx((1, 0.2, 0.2))
    assert "snr_db" not in row


def test_picture_formats_modes_and_transparency_are_handled(tmp_path):
    rng = np.random.default_rng(0)
    x = np.kron(rng.integers(0, 255, (4, 4)), np.ones((8, 8)))
    grey = paint(tmp_path / "a.png", x)
    for name, pixels in (
        ("b.jpg", x),
        ("c.webp", np.stack([x] * 3, 2)),
        ("d.png", np.stack([x, x, x, x * 0 + 255], 2)),
    ):
        (row,) = measure_files(grey, paint(tmp_path / name, pixels)).rows
        assert row["linf"] < 0.3, name
    assert "transparency shown on white" in row["note"]
    assert "grey compared with colour" in row["note"]
    Image.fromarray((x * 257).astype(np.uint16)).save(tmp_path / "deep.png")
    assert measure_files(grey, tmp_path / "deep.png").rows[0]["linf"] < 1e-6


def test_pictures_of_different_size_are_an_error(tmp_path):
    one, other = paint(tmp_path / "a.png", np.zeros((4, 6))), paint(tmp_path / "b.png", np.zeros((4, 7)))
    with pytest.raises(UserError, match=r"has 6 x 4 pixels and .* 7 x 4"):
        measure_files(one, other)


WRONG = {
    "an empty file": b"",
    "a text file": b"hello, this is no sound and no picture at all",
    "half a header": b"RIFF\x24\x00\x00\x00WAVEfmt ",
}


@pytest.mark.parametrize("content", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("suffix", [".wav", ".mp3", ".png", ".jpg"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, content, suffix):
    good = (
        write(tmp_path / "good.wav", voice())
        if suffix in (".wav", ".mp3")
        else paint(tmp_path / "good.png", np.zeros((4, 4)))
    )
    bad = tmp_path / f"bad{suffix}"
    bad.write_bytes(content)
    for pair in ((good, bad), (bad, good)):
        with pytest.raises(UserError, match=f"bad{suffix}"):
            measure_files(*pair)


def test_a_cut_off_picture_is_named(tmp_path):
    good = paint(tmp_path / "good.png", np.random.default_rng(0).integers(0, 255, (64, 64)))
    (tmp_path / "bad.png").write_bytes(good.read_bytes()[:1500])
    with pytest.raises(UserError, match=r"bad\.png: cannot be read as a picture"):
        measure_files(good, tmp_path / "bad.png")


def test_one_bad_pair_of_many_is_listed_and_the_rest_goes_on(folders):
    clean, adversarial = folders
    (adversarial / "c.flac").write_bytes(b"broken")
    write(adversarial / "sub" / "b.wav", voice(3))
    measured = measure_files(clean, adversarial, metrics=DISTANCES)
    assert [r["id"] for r in measured.rows] == ["a.wav"]
    assert len(measured.failed) == 2
    assert any("c.flac" in line for line in measured.failed)
    assert any("too different" in line for line in measured.failed)


def test_folders_in_which_no_pair_can_be_compared_are_an_error(tmp_path):
    for side in ("clean", "adversarial"):
        for name in ("a.wav", "b.wav"):
            (tmp_path / side).mkdir(exist_ok=True)
            (tmp_path / side / name).write_bytes(b"broken")
    with pytest.raises(UserError, match="None of the 2 pairs could be compared"):
        measure_files(tmp_path / "clean", tmp_path / "adversarial")


def test_what_is_not_there_or_does_not_match_is_said(folders, tmp_path):
    clean, adversarial = folders
    with pytest.raises(UserError, match="there is no such file or folder"):
        measure_files(clean, tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"is a folder and .* is a file"):
        measure_files(clean, adversarial / "other.wav")
    with pytest.raises(UserError, match=r"readme\.txt: the suffix '\.txt' is neither"):
        measure_files(clean / "readme.txt", adversarial / "other.wav")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="contains no clips"):
        measure_files(clean, tmp_path / "empty")
    write(tmp_path / "third" / "z.wav", voice())
    with pytest.raises(UserError, match=r"No file of .* has a partner"):
        measure_files(clean, tmp_path / "third")


def test_clips_and_pictures_are_not_mixed(tmp_path):
    for side in ("clean", "adversarial"):
        write(tmp_path / side / "a.wav", voice())
        paint(tmp_path / side / "b.png", np.zeros((4, 4)))
    with pytest.raises(UserError, match="both clips and pictures"):
        measure_files(tmp_path / "clean", tmp_path / "adversarial")
    with pytest.raises(UserError, match="both clips and pictures"):
        measure_files(tmp_path / "clean" / "a.wav", tmp_path / "adversarial" / "b.png")


def test_a_metric_that_needs_a_model_is_refused(folders):
    with pytest.raises(UserError, match="there is no model"):
        measure_files(*folders, metrics=["correct"])


def test_csv_and_json_hold_every_row_and_reason(folders, tmp_path):
    measured = measure_files(*folders, metrics=DISTANCES)
    measured.rows[0]["snr_db"], measured.rows[0]["missing"] = None, {"snr_db": "nothing was changed"}
    write_csv(measured, tmp_path / "out" / "table.csv")
    rows = list(csv.DictReader((tmp_path / "out" / "table.csv").open(encoding="utf-8")))
    assert [r["id"] for r in rows] == ["a.wav", "c.flac", "sub/b.wav"]
    assert rows[0]["snr_db"] == ""
    assert json.loads(rows[0]["missing"]) == {"snr_db": "nothing was changed"}
    assert float(rows[1]["peak_db_vocal"]) == pytest.approx(measured.rows[1]["peak_db_vocal"])
    write_json(measured, tmp_path / "table.json")
    content = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))
    assert content["rows"] == measured.rows
    assert content["unmatched"] == measured.unmatched
    assert content["summary"]["snr_db"]["missing"] == 1
    assert content["columns"]["snr_db"]["unit"] == "dB"


def test_the_page_is_self_contained_and_shows_names_as_text(tmp_path):
    for side, amount in (("clean", 0), ("adversarial", 0.01)):
        write(tmp_path / side / "<b>&loud.wav", voice() + amount * noise(RATE_HZ))
        write(tmp_path / side / "[red]x.wav", voice())
    measured = measure_files(tmp_path / "clean", tmp_path / "adversarial")
    write_html(measured, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;&amp;loud.wav" in page
    assert "<b>" not in page
    assert "http" not in page
    assert 'title="nothing was changed"' in page
    assert "color-scheme: light dark" in page


@pytest.mark.parametrize("width", [60, 200])
def test_the_terminal_shows_every_pair_and_what_was_left_out(folders, width):
    measured = measure_files(*folders, metrics=DISTANCES)
    console = Console(width=width, record=True, file=io.StringIO())
    print_tables(measured, console)
    text = console.export_text()
    for word in ("sub/b.wav", "c.flac", "SNR, dB", "no partner: ", "lonely.wav"):
        assert word in text.replace("\n", "")


def test_the_terminal_shows_one_pair_metric_by_metric_and_names_with_brackets_as_they_are(tmp_path):
    one = write(tmp_path / "[red]x.wav", voice())
    console = Console(width=120, record=True, file=io.StringIO())
    print_tables(measure_files(one, one, metrics=DISTANCES), console)
    text = console.export_text()
    assert "[red]x.wav" in text
    assert "none: nothing was changed" in text


def test_progress_is_told_pair_by_pair(folders):
    told = []
    measure_files(*folders, metrics=["l2"], advance=lambda done, total: told.append((done, total)))
    assert told == [(0, 3), (1, 3), (2, 3)]


def test_the_command_shows_the_table_and_writes_what_was_asked_for(folders, tmp_path):
    console = Console(width=100, record=True, file=io.StringIO())
    command(
        *folders,
        csv=tmp_path / "t.csv",
        json_path=tmp_path / "t.json",
        html=tmp_path / "t.html",
        metrics=DISTANCES,
        console=console,
    )
    assert {p.name for p in tmp_path.glob("t.*")} == {"t.csv", "t.json", "t.html"}
    text = console.export_text()
    assert "3 pairs of clips" in text
    assert "written: " in text
