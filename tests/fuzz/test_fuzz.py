"""Whatever stands in a file, Limen ends with exit code 0 or 2 and a message: never a traceback, never over 20
seconds or 1 GiB."""

import pytest
from judging import bad_endings


@pytest.mark.parametrize(
    ("kind", "count"),
    [("experiments", 250), ("media", 250), ("weights", 200), ("tables", 100), ("studies", 40), ("sizes", 15)],
)
def test_broken_files_end_with_a_message(kind, count):
    assert bad_endings(kind, seed=18, count=count) == []
