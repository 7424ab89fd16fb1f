"""Trial types and pages of listening studies: one file each."""
