"""The papers' figures, drawn again by our networks and probes: one file per paper, `base.py` has what they share."""
