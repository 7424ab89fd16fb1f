"""Text normalisation: what counts as the same text is an option of every metric and goal that compares
texts."""

import re
import unicodedata
from typing import Literal

How = Literal["none", "words", "english"]
""""none": unchanged, single spaces; "words": lower case, only letters, digits and apostrophes; "english":
also numbers as words, 14 as fourteen and 3rd as third."""

ONES = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
)
ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


def normalised(text: str, how: How) -> str:
    if how == "english":
        text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
        text = re.sub(
            r"(\d+)(st|nd|rd|th)\b",
            lambda found: f" {_ordinal(_number_words(found[1]))} ",
            text,
            flags=re.IGNORECASE,
        )
        text = re.sub(r"\d+", lambda digits: f" {_number_words(digits[0])} ", text)
    if how != "none":
        plain = unicodedata.normalize("NFC", text.lower().replace("’", "'"))
        text = "".join(c if c == "'" or unicodedata.category(c)[0] in "LMN" else " " for c in plain)
    return " ".join(text.split())


def _number_words(digits: str) -> str:
    """Numbers up to 999,999 in words; longer ones, and those that begin with 0, digit by digit."""
    if len(digits) > 6 or (len(digits) > 1 and digits[0] == "0"):
        return " ".join(ONES[int(d)] for d in digits)
    n = int(digits)
    if n >= 1000:
        rest = f" {_number_words(str(n % 1000))}" if n % 1000 else ""
        return f"{_number_words(str(n // 1000))} thousand{rest}"
    if n >= 100:
        rest = f" {_number_words(str(n % 100))}" if n % 100 else ""
        return f"{ONES[n // 100]} hundred{rest}"
    if n >= 20:
        return TENS[n // 10 - 2] + (f" {ONES[n % 10]}" if n % 10 else "")
    return ONES[n]


def _ordinal(words: str) -> str:
    """ "twenty one" -> "twenty first"."""
    *before, last = words.split()
    return " ".join(
        [*before, ORDINALS.get(last) or (f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th")]
    )
