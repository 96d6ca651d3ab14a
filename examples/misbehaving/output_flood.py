"""Says the same thing for ever."""

while True:
    print("word " * 1000)
