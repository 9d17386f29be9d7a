"""Registries that walk a package: adding a file is all it takes to be found.

A registry imports the modules of one package (those whose name does not start with an underscore) when it is first
asked for an entry, and takes from them the objects that `accepts` says belong there.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from unweave.base.errors import UnweaveError, unknown_name

T = TypeVar("T")


class Registry(Generic[T]):
    """Named entries found in the modules of a package.

    kind:    what an entry is called in messages, e.g. "system"
    package: dotted name of the package whose modules are walked
    accepts: whether an object found in a module is an entry
    name_of: the entry's public name
    """

    def __init__(self, kind: str, package: str, accepts: Callable[[Any], bool], name_of: Callable[[T], str]):
        self.kind, self.package = kind, package
        self._accepts, self._name_of = accepts, name_of
        self._found: dict[str, T] | None = None
        self._extra: dict[str, T] = {}

    def _walk(self) -> dict[str, T]:
        if self._found is None:
            found: dict[str, T] = {}
            package = importlib.import_module(self.package)
            for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
                if info.name.startswith("_"):
                    continue
                module = importlib.import_module(f"{self.package}.{info.name}")
                for value in vars(module).values():
                    # Only what the module defines itself: an entry imported for use elsewhere is not a second entry.
                    if getattr(value, "__module__", None) == module.__name__ and self._accepts(value):
                        name = self._name_of(value)
                        if name in found and found[name] is not value:
                            raise UnweaveError(f"two {self.kind}s are called {name!r} in {self.package}: rename one")
                        found[name] = value
            self._found = found
        return {**self._found, **self._extra}

    def register(self, entry: T) -> T:
        """Add an entry defined outside the package (a user's own); usable as a decorator.

        One that was added before may be replaced, as when a notebook cell runs again; the package's own may not.
        """
        name, entries = self._name_of(entry), self._walk()
        if entries.get(name) is not entry:
            if name in entries and name not in self._extra:
                raise UnweaveError(f"a {self.kind} called {name!r} exists already: choose another name")
            self._extra[name] = entry
        return entry

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._walk()))

    def __getitem__(self, name: str) -> T:
        entries = self._walk()
        if name not in entries:
            raise unknown_name(self.kind, name, entries)
        return entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._walk()

    def __iter__(self) -> Iterator[T]:
        entries = self._walk()
        return iter([entries[name] for name in sorted(entries)])

    def __len__(self) -> int:
        return len(self._walk())
