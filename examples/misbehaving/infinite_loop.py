"""Never ends: its CPU time does."""

while True:
    pass
