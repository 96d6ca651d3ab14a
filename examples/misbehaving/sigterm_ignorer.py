"""Sleeps on when it is asked to end."""

import signal
import time

for polite in signal.SIGTERM, signal.SIGINT, signal.SIGHUP:
    signal.signal(polite, signal.SIG_IGN)
while True:
    time.sleep(1)
