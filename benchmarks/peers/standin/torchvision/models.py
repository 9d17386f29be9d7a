def vgg19_bn(*_: object, **__: object) -> None:
    raise NotImplementedError("this is a stand-in for torchvision, without its models")
