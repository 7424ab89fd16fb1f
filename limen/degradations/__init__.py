"""Ways a sound gets worse, each with a strength from 0 (unchanged) to 100; one file per axis."""
