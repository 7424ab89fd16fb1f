"""Sections of the report. A file NAME.py holds the function NAME(run: Run) or NAME(part: Part); it returns a
`Section`, or None if it has nothing to show."""
