"""Texts made comparable, each way in exact cases."""

import pytest

from limen.core.text import normalised


@pytest.mark.parametrize(
    ("text", "how", "result"),
    [
        ("  OK,  Google! ", "none", "OK, Google!"),
        ("OK, Google: browse to evil.com.", "words", "ok google browse to evil com"),
        ("Don’t stop -- it's 5", "words", "don't stop it's 5"),
        ("Ça va, élève?", "words", "ça va élève"),
        ("5 9 0", "english", "five nine zero"),
        ("It costs 1,250 dollars", "english", "it costs one thousand two hundred fifty dollars"),
        (
            "12, 20, 21, 100 and 342",
            "english",
            "twelve twenty twenty one one hundred and three hundred forty two",
        ),
        ("007 and 12345678", "english", "zero zero seven and one two three four five six seven eight"),
        (
            "the 13th, 21st, 3rd, 20TH and 1,000th",
            "english",
            "the thirteenth twenty first third twentieth and one thousandth",
        ),
        ("", "english", ""),
    ],
)
def test_a_text_is_normalised_as_asked(text, how, result):
    assert normalised(text, how) == result
