"""Leaves a daemon behind that has a session of its own, and keeps the caller's standard output open."""

import os
import time

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(0)
os.wait()
print("done")
