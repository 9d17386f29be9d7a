"""Reproductions: what a paper claims, how it is measured and when it holds; one file per paper."""
