"""Fills the disk with files of which each is small enough."""

import itertools

for n in itertools.count():
    with open(f"/tmp/file{n}", "wb") as file:
        file.write(bytes(1 << 20))
