"""A report: one self-contained HTML file about one run, several runs, a comparison or a search."""

from autapse.report.page import is_report, render
from autapse.report.run import RunFacts, read_facts

__all__ = ["RunFacts", "is_report", "read_facts", "render"]
