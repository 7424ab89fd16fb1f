import pytest
import torch

from limen.audio.files import write_clip
from limen.core.components import parse
from limen.core.errors import UserError
from limen.data.base.split import split_of


def dataset(path, **options):
    component, parsed = parse("data", {"name": "asterisk", "path": str(path), **options})
    return component.function(parsed)


LINES = {
    "activated": "Activated.",
    "digits/1F": "One: two",
    "letters/at": "at [@]",
    "beep": "[this is a simple beep tone]",
    "confbridge-join": "<beep ascending>",
    "silence/1": "(1 second of silence)",
    "empty": "",
    "it-is": "It's, um... so-so.",
}


SPOKEN = ("activated", "digits/1F", "letters/at", "it-is")
SPLITS = sorted({split_of(f"en/{name}", 0.1, 0.2) for name in SPOKEN})
"""The splits that have one of so few prompts."""


def layout(folder, language="en"):
    for i, name in enumerate([*LINES, "no-text"]):
        write_clip(folder / f"{name}.wav", torch.zeros(800 * (i + 1)), 8000)
    lines = "".join(
        f"{name.lower() if name == 'digits/1F' else name}: {text}\n" for name, text in LINES.items()
    )
    (folder / f"core-sounds-{language}.txt").write_text(
        f"\ufeff; Core sounds: a comment\n\n{lines}only-text: There is no file.\n", encoding="utf-8"
    )
    return folder


def everything(folder, **options):
    return {s.id: s for split in SPLITS for s in dataset(folder, split=split, **options)}


def test_spoken_prompts_come_with_what_is_said(tmp_path):
    expected = {
        "en/activated": "activated",
        "en/digits/1F": "one two",
        "en/letters/at": "at",
        "en/it-is": "it's um so so",
    }
    assert {name: sample.y for name, sample in everything(layout(tmp_path)).items()} == expected


def test_the_text_can_stay_as_it_stands(tmp_path):
    assert everything(layout(tmp_path), normalise="none")["en/it-is"].y == "It's, um... so-so."


def test_clips_are_brought_to_the_rate(tmp_path):
    assert [len(everything(layout(tmp_path), rate_hz=rate)["en/activated"].x) for rate in (8000, 16000)] == [
        800,
        1600,
    ]


def test_long_prompts_can_be_left_out(tmp_path):
    layout(tmp_path)
    for split in SPLITS:
        spoken = {f"en/{n}" for n in SPOKEN if split_of(f"en/{n}", 0.1, 0.2) == split} & {
            "en/activated",
            "en/digits/1F",
        }
        if spoken:
            assert {s.id for s in dataset(tmp_path, split=split, longest_s=0.25)} == spoken
        else:
            with pytest.raises(UserError, match="no prompt"):
                dataset(tmp_path, split=split, longest_s=0.25)


def test_a_folder_without_transcripts_is_named(tmp_path):
    with pytest.raises(UserError, match=r"core-sounds-fr\.txt"):
        dataset(tmp_path, language="fr")


def test_prompts_that_were_never_fetched_come_with_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("LIMEN_CACHE", str(tmp_path))
    component, parsed = parse("data", {"name": "asterisk", "language": "it"})
    with pytest.raises(UserError, match="limen data get asterisk-it"):
        component.function(parsed)
