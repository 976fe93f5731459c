"""Figures by theme, one file each. `autapse.diagnostics.plots` has all their names."""
