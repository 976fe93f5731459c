"""Diagnostics: probes compute values, plots draw values."""
