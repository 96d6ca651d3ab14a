"""Wants 10 GB, a megabyte at a time, and uses each, as memory that is only asked for costs nothing."""

eaten = []
for _ in range(10_000):
    eaten.append(b"x" * (1 << 20))
