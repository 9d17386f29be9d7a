"""The core: blocks, codes, traces, terms, systems, players, registries, errors. Imports nothing else of ours."""
