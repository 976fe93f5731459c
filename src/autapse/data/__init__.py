"""Data sets: where they are, how they get here, and what their files say. Numpy only, and no task knowledge."""
