class ImageFolder:
    def __init__(self, *_: object, **__: object):
        raise NotImplementedError("this is a stand-in for torchvision, without its data sets")
