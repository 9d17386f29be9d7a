from torchvision.transforms import functional  # noqa: F401
