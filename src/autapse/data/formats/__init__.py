"""Readers, one file format per module. The error for a damaged file names the file and the position."""
