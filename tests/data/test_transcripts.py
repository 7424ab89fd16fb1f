import pytest
import torch

from limen.audio.files import write_clip
from limen.core.components import parse
from limen.core.errors import UserError


def dataset(path, **options):
    component, parsed = parse("data", {"name": "transcripts", "path": str(path), "order": "file", **options})
    return component.function(parsed)


def clip(path, frames=100):
    write_clip(path, torch.zeros(frames), 16000)


def texts(data):
    return {sample.id: sample.y for sample in data}


def test_text_files_beside_the_audio(tmp_path):
    clip(tmp_path / "a.wav")
    clip(tmp_path / "deep" / "b.wav")
    (tmp_path / "a.txt").write_text("Hello,  WORLD!\n")
    (tmp_path / "deep" / "b.txt").write_text("It's 5 o’clock.")
    assert texts(dataset(tmp_path)) == {"a.wav": "hello world", "deep/b.wav": "it's 5 o'clock"}
    assert texts(dataset(tmp_path, normalise="none")) == {
        "a.wav": "Hello, WORLD!",
        "deep/b.wav": "It's 5 o’clock.",
    }
    assert texts(dataset(tmp_path, normalise="english"))["deep/b.wav"] == "it's five o'clock"


def test_the_layout_of_librispeech(tmp_path):
    for i in range(2):
        clip(tmp_path / "84" / "12" / f"84-12-000{i}.flac")
    (tmp_path / "84" / "12" / "84-12.trans.txt").write_text(
        "84-12-0000 GO DO YOU HEAR\n84-12-0001 BUT IN LESS THAN\n"
    )
    assert texts(dataset(tmp_path)) == {
        "84/12/84-12-0000.flac": "go do you hear",
        "84/12/84-12-0001.flac": "but in less than",
    }


def test_a_csv_table_with_quotes_commas_and_newlines(tmp_path):
    clip(tmp_path / "x" / "a.wav")
    (tmp_path / "t.csv").write_text(
        '\ufeffnumber,file,words\n1,x/a.wav,"one, two\nthree"\n', encoding="utf-8"
    )
    assert texts(dataset(tmp_path / "t.csv")) == {"x/a.wav": "one two three"}


def test_the_layout_of_common_voice(tmp_path):
    for name in ("p.wav", "q.wav", "r.wav"):
        clip(tmp_path / "clips" / name)
    head = "client_id\tpath\tsentence\tup_votes\n"
    (tmp_path / "test.tsv").write_text(head + '1\tp.wav\tÉl dijo "sí\t2\n', encoding="utf-8")
    (tmp_path / "dev.tsv").write_text(head + "1\tq.wav\tДа.\t2\n", encoding="utf-8")
    (tmp_path / "train.tsv").write_text(head + "1\tr.wav\tz\t2\n", encoding="utf-8")
    assert [texts(dataset(tmp_path, split=s)) for s in ("test", "valid", "train")] == [
        {"p.wav": "él dijo sí"},
        {"q.wav": "да"},
        {"r.wav": "z"},
    ]
    assert texts(dataset(tmp_path / "dev.tsv")) == {"q.wav": "да"}


def test_columns_can_be_named(tmp_path):
    clip(tmp_path / "a.wav")
    (tmp_path / "t.csv").write_text("sound;said;text\na.wav;this;that\n")
    assert texts(dataset(tmp_path / "t.csv", audio_column="sound", text_column="said")) == {"a.wav": "this"}


def test_rows_of_the_same_file_have_ids_of_their_own(tmp_path):
    clip(tmp_path / "a.wav")
    (tmp_path / "t.csv").write_text("path,text\na.wav,one\na.wav,two\n")
    assert texts(dataset(tmp_path / "t.csv")) == {"a.wav": "one", "a.wav#3": "two"}


def test_a_column_id_names_the_samples(tmp_path):
    clip(tmp_path / "a.wav")
    clip(tmp_path / "b.wav")
    (tmp_path / "t.csv").write_text("id,path,text\nfirst,a.wav,one\n,b.wav,two\nfirst,b.wav,three\n")
    assert texts(dataset(tmp_path / "t.csv")) == {"first": "one", "b.wav": "two", "first#4": "three"}


def test_fractions_part_a_table(tmp_path):
    clip(tmp_path / "a.wav")
    (tmp_path / "t.csv").write_text("path,text\n" + "a.wav,one\n" * 50)
    assert len(dataset(tmp_path / "t.csv")) == 50
    parts = [
        len(dataset(tmp_path / "t.csv", split=s, valid_fraction=0.3, test_fraction=0.3))
        for s in ("train", "valid", "test")
    ]
    assert sum(parts) == 50
    assert min(parts) > 5


def test_split_folders_are_used(tmp_path):
    for split in ("train", "test"):
        clip(tmp_path / split / "a.wav")
        (tmp_path / split / "a.txt").write_text(split)
    assert texts(dataset(tmp_path)) == {"test/a.wav": "test"}
    with pytest.raises(UserError, match="no folder for the split valid"):
        dataset(tmp_path, split="valid")


@pytest.mark.parametrize(
    ("table", "word"),
    [
        ("", "0 bytes"),
        ("a,b\n1,2\n", "audio_column"),
        ("path,b\nx.wav,2\n", "text_column"),
        ("path,text\n", "no rows"),
        ("path,text\n,hello\n", "line 2"),
        ("path,text\n\x00,hello\n", ""),
    ],
)
def test_tables_that_do_not_serve_are_named(tmp_path, table, word):
    (tmp_path / "t.csv").write_text(table)
    with pytest.raises(UserError) as caught:
        list(dataset(tmp_path / "t.csv"))
    assert word in str(caught.value)


def test_a_named_column_that_is_not_there_is_an_error(tmp_path):
    (tmp_path / "t.csv").write_text("path,text\na.wav,hello\n")
    with pytest.raises(UserError, match=r'"sound".*audio_column'):
        dataset(tmp_path / "t.csv", audio_column="sound")


def test_a_table_that_is_not_text_is_named(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"\xff\xfe\x00\x80 path")
    with pytest.raises(UserError, match=r"t\.csv.*UTF-8"):
        dataset(tmp_path / "t.csv")


def test_missing_audio_empty_texts_and_missing_texts_stop_or_are_skipped(tmp_path):
    clip(tmp_path / "a.wav")
    clip(tmp_path / "b.wav")
    (tmp_path / "t.csv").write_text("path,text\na.wav,hello\nno.wav,gone\nb.wav,?!\n")
    with pytest.raises(UserError, match=r"no\.wav.*line 3"):
        list(dataset(tmp_path / "t.csv"))
    data = dataset(tmp_path / "t.csv", bad_files="skip")
    assert texts(data) == {"a.wav": "hello"}
    assert len(data.skipped) == 2
    (tmp_path / "a.txt").write_text("hello")
    folder = dataset(tmp_path, bad_files="skip")
    assert texts(folder) == {"a.wav": "hello"}
    assert "b.wav" in folder.skipped[0]


def test_paths_that_do_not_serve_are_named(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        dataset(tmp_path / "no")
    with pytest.raises(UserError, match="nothing for the split"):
        dataset(tmp_path)
    clip(tmp_path / "a.wav")
    with pytest.raises(UserError, match="no transcript"):
        dataset(tmp_path)
