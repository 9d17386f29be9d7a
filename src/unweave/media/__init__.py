"""How observations are shown and written to files: pictures today, one file for each kind of data later."""

from unweave.media.each import save_each
from unweave.media.pictures import save_gif, save_png
from unweave.media.shown import Shown

__all__ = ["Shown", "save_each", "save_gif", "save_png"]
