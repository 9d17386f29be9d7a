"""Networks: plain modules for images and vectors of any size. No losses here."""
