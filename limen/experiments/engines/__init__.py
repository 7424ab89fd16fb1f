"""Where the cells of an experiment are computed: one file per engine."""
