"""Graphs that three or more papers share: the two programs and their networks, without an objective."""
