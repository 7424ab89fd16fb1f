"""Analyses of answers, one file each: the function of the file's name takes `TrialAnswers` and returns a
result, or None if there are no answers of its kind, and notes. Trial types name them in `analyses`."""
