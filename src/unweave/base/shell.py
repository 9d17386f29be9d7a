"""Commands as a person can paste them: words with spaces or signs in them are put in quotes."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys


def quoted(word: object) -> str:
    """A word as a shell reads it back: of a POSIX shell, or of the Windows command line."""
    text = str(word)
    return subprocess.list2cmdline([text]) if os.name == "nt" else shlex.quote(text)


def command_line(*words: object) -> str:
    """The words of a command on one line."""
    return " ".join(map(quoted, words))


def as_typed() -> str:
    """How the command `unweave` is called here: by its name where the shell finds it, else as it was called."""
    if shutil.which("unweave"):
        return "unweave"
    return "python -m unweave" if sys.argv[0].endswith("__main__.py") else quoted(sys.argv[0])
