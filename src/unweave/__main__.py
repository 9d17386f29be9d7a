"""`python -m unweave`, the same as `unweave`."""

from unweave.cli import main

main()
