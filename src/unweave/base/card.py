"""What a system, score or data set is and whom to cite for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Card:
    """A short description with its source.

    summary: one line, shown in lists
    paper:   authors, title, venue, year
    bibtex:  the entry that `unweave cite` prints and `citations.bib` collects; empty when there is nothing to cite
    needs:   what data or inputs it needs, one line
    """

    summary: str
    paper: str = ""
    bibtex: str = ""
    needs: str = ""
