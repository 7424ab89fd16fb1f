"""Assumptions for planning a study before any answer is known, and the smallest adequate number of items."""

ICC = 0.05
"""Assumed intraclass correlation: the correlation of two answers of one listener."""
ITEM_SD = 0.2
"""Assumed standard deviation between items, in log odds of a correct answer or in standard deviations of a
single rating."""
FEW_ITEMS = 5
"""Number of items in a condition below which the variance between items is poorly known: a test at 5 % then
has a false alarm rate of up to 11 %."""
