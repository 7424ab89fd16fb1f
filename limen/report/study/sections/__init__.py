"""Sections of the results page, one for each analysis: the function of the file's name takes the result and a
`Context` and returns a `StudySection`."""
