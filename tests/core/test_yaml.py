"""Files as plain data: what is refused, with the place and the way out."""

import pytest

from limen.core.errors import UserError
from limen.core.yaml import MAX_MIB, MAX_VALUES, read_yaml


def doubled(levels: int, pattern: str) -> str:
    return "a0: &a0 {k: 1}\n" + "".join(f"a{i}: &a{i} {pattern.format(i - 1)}\n" for i in range(1, levels))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: !!timestamp 2001-01-01", "tag !!timestamp is not for data"),
        ("a: !!binary aGk=", "tag !!binary is not for data"),
        ("a: !!python/object/apply:os.getcwd []", "is not for data"),
        ("a: !!int x", r"'x' is no !!int"),
        ("a: !!int ''", r"'' is no !!int"),
        ("a: !!bool perhaps", "'perhaps' is no !!bool"),
        ("1: 2", 'a key must be text; put it in quotes: "1"'),
        ("? [1, 2]\n: 3", "a key must be text"),
        ("a: 1\nb: 2\na: 3", "the key 'a' appears twice"),
        ("a: &a [*a]", "contains itself"),
        ("[" * 100, "nested deeper than 60"),
        (doubled(80, "[*a{0}]"), "nest deeper than 60"),
        (doubled(40, "[*a{0}, *a{0}]"), "has more than 100,000 values"),
        (doubled(40, "{{<<: [*a{0}, *a{0}]}}"), "has more than 100,000 values"),
        ("a: " + "9" * 5000, "is no !!int"),
        ("tasks:\n  - steps: " + "9" * 30, r"tasks\[0\].steps: an integer must fit in 64 bits"),
        ('a: "\\UFFFFFFFF"', r"goes beyond the last character, \\U0010FFFF"),
        ('a: "\\U00110000"', r"beyond the last character(.|\n)*line 1, column 7"),
        ("a: !!float nan", "a: a number must be finite"),
        ('a: ["\\0"]', r"a\[0\]: text must not contain the character NUL"),
        ("a: *b", r"undefined alias 'b'(.|\n)*\"bad.yaml\", line 1, column 4"),
    ],
)
def test_what_is_no_plain_data_is_refused_with_its_place(text, words, tmp_path):
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(UserError, match=words) as error:
        read_yaml(tmp_path / "bad.yaml")
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1e999}', "a: a number must be finite, got inf"),
        ('{"a": NaN}', "a: a number must be finite, got nan"),
        ('{"a": "\\ud800"}', "half a surrogate pair"),
        ('{"a": 1, "a": 2}', "the key 'a' appears twice"),
        ('{"a":' * 100_000, "nested deeper than 60"),
        ("[" * 500 + "]" * 500, "nested deeper than 60"),
        ("[" + "1," * MAX_VALUES + "1]", "has more than 100,000 values"),
    ],
)
def test_json_is_held_to_the_same_rules(text, words, tmp_path):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(UserError, match=words):
        read_yaml(tmp_path / "bad.json")


def test_a_file_that_is_too_large_or_no_text_is_named(tmp_path):
    (tmp_path / "large.yaml").write_text("#" * (MAX_MIB * 2**20 + 1))
    with pytest.raises(
        UserError, match=r"large\.yaml cannot be read as YAML: it has 2\.0 MiB, the limit is 2 MiB"
    ):
        read_yaml(tmp_path / "large.yaml")
    (tmp_path / "wide.yaml").write_text("name: x", encoding="utf-16")
    with pytest.raises(UserError, match=r"not UTF-8 text.*Save it as UTF-8"):
        read_yaml(tmp_path / "wide.yaml")


def test_dates_stay_text_and_aliases_and_merges_work(tmp_path):
    (tmp_path / "a.yaml").write_text(
        "day: 2001-01-01\nbase: &base {steps: 3, eps: 0.1}\nmore: {<<: *base, eps: 0.2}\nsame: [*base, "
        "*base]\n"
    )
    content = read_yaml(tmp_path / "a.yaml")
    assert content["day"] == "2001-01-01"
    assert content["more"] == {"steps": 3, "eps": 0.2}
    assert content["same"] == [content["base"]] * 2


def test_a_byte_order_mark_is_no_trouble(tmp_path):
    for name, text in (("a.json", '{"a": 1}'), ("a.yaml", "a: 1")):
        (tmp_path / name).write_text(text, encoding="utf-8-sig")
        assert read_yaml(tmp_path / name) == {"a": 1}
