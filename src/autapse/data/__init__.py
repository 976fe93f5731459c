"""Data sets: their folders, their downloads, and the readers of their files. Uses numpy only, and knows no tasks."""
