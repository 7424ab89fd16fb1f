"""What a study is planned with before any answer is known, and how few items are too few."""

ICC = 0.05
"""How much answers of one listener are taken to resemble each other: the correlation of two of them."""
ITEM_SD = 0.2
"""How much items are taken to differ: standard deviations of log odds of right answers, or of single
ratings."""
FEW_ITEMS = 5
"""Items in a condition below which what items differ by is hardly known: a test at 5 % then finds what is not
there in up to 11 %."""
