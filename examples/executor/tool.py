"""An executor: takes a request as JSON on standard input, and answers with JSON."""

import json
import socket
import sys
from pathlib import Path

from words import count  # a module beside it

HERE = Path(__file__).parent


def attempt(what):
    """The result, or the reason why there is none."""
    try:
        return what()
    except OSError as err:
        return err.strerror


def save(path, text):
    path.write_text(text)
    return "written"


def connect():
    with socket.socket() as s:
        s.settimeout(3)
        s.connect(("192.0.2.1", 80))
    return "connected"


request = json.load(sys.stdin)
total = sum(count(note.read_text()) for note in sorted((HERE / request["notes"]).iterdir()))
print(json.dumps({
    "words": total,
    "save": attempt(lambda: save(HERE / request["save"], f"{total} words\n")),
    "change the code": attempt(lambda: save(HERE / "words.py", "")),
    "connect": attempt(connect),
}, indent=1))
