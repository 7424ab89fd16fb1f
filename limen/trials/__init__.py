"""What a listener is asked: one file per trial type or page of a study."""
