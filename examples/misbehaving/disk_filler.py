"""Writes one file that never ends. Python ignores the signal that is sent at the limit, and most programs do not: neither does this one."""

import signal

signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
with open("/tmp/file", "wb") as file:
    while True:
        file.write(bytes(1 << 20))
