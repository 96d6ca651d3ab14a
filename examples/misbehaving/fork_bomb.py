"""Starts as many processes as it can, until it is refused one."""

import os
import time

while True:
    if os.fork() == 0:
        time.sleep(1000)
