"""Probes give numbers; plots draw numbers."""
