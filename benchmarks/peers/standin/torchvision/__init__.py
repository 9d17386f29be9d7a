"""A stand-in for torchvision with the names disent imports; none of them is called by what is measured."""

from torchvision import datasets, models, transforms  # noqa: F401
