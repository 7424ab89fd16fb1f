"""Degradations of a sound with a strength from 0 (unchanged) to 100; one file per axis."""
