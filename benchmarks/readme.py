"""`python benchmarks/readme.py` puts the tables of benchmarks/results into the README, between their marks."""

from __future__ import annotations

from _report import rewrite

if __name__ == "__main__":
    rewrite()
