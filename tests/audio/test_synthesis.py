import subprocess
import sys

import numpy as np
import pytest

from limen.audio.synthesis import ACCENTS, speak, variants
from limen.core.errors import UserError


def test_the_same_call_gives_the_same_samples_whatever_was_said_before():
    # f2 and whisper breathe, klatt draws from rand(), Demonic has an echo, m1 flutters
    voices = ["en-us+f2", "en-us+whisper", "en+klatt", "en-029+Demonic", "en+m1"]
    first = [speak("stop", v) for v in voices]
    speak("something else entirely", "en-us+Storm", speed_wpm=300, pitch=90, pitch_range=10, word_gap=3)
    for voice, x in reversed(list(zip(voices, first, strict=True))):
        np.testing.assert_array_equal(speak("stop", voice), x)


def test_another_process_says_the_same():
    code = (
        "import sys; from limen.audio.synthesis import speak; sys.stdout.buffer.write(speak('seven', "
        "'en-us+f3').tobytes())"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert there == speak("seven", "en-us+f3").tobytes()


def test_every_accent_and_every_variant_is_a_voice_of_its_own():
    assert len(variants()) > 100
    said = [speak("right", accent) for accent in ACCENTS] + [
        speak("right", f"en+{v}") for v in variants() if v != "m1"
    ]
    assert all(len(x) > 2000 and np.abs(x).max() > 0.02 for x in said)
    different = {x.tobytes() for x in said}
    assert len(different) > 0.9 * len(said)  # a few variants differ only in sounds that this word lacks


def test_speed_and_pitch_do_what_they_say():
    slow, fast = (speak("one two three four", speed_wpm=s) for s in (100, 200))
    assert len(slow) > 1.7 * len(fast)

    def pitch_hz(x):
        x = x - x.mean()
        r = np.fft.irfft(np.abs(np.fft.rfft(x, 2 * len(x))) ** 2)
        return 16_000 / (40 + r[40:266].argmax())

    assert pitch_hz(speak("ah", pitch=80, pitch_range=0)) > 1.2 * pitch_hz(
        speak("ah", pitch=20, pitch_range=0)
    )


def test_the_rate_changes_the_number_of_samples_and_not_the_sound():
    low, high = speak("no", rate_hz=16_000), speak("no", rate_hz=22_050)
    assert abs(len(low) - len(high) * 16_000 / 22_050) <= 1
    # a resampler of our own and scipy's agree in the band both keep
    from scipy.signal import resample_poly

    theirs = resample_poly(high.astype(np.float64), 320, 441)[: len(low)]
    assert np.linalg.norm(theirs - low) < 0.02 * np.linalg.norm(low)


@pytest.mark.parametrize("voice", ["en-us+nobody", "xx-yy", "en-xx+f3"])
def test_an_unknown_voice_is_named_and_never_replaced(voice):
    with pytest.raises(UserError, match=f'no voice "{voice.replace("+", chr(92) + "+")}"'):
        speak("yes", voice)


def test_nothing_to_say_is_no_sound():
    assert len(speak("")) < 1600
