"""An executor: counts the words of its notes, and can be asked for what it was not granted."""

import json
import os
import socket
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def count():
    notes = [os.path.join(HERE, "notes", name) for name in sorted(os.listdir(os.path.join(HERE, "notes")))]
    return {"notes": len(notes), "words": sum(len(open(note).read().split()) for note in notes)}


def write():
    open(os.path.join(HERE, "main.py"), "a").close()
    return {"done": "opened its own code for writing"}


def look():
    return {"beside": os.listdir(os.path.dirname(HERE))}


def connect():
    with socket.create_connection(("192.0.2.1", 80), timeout=3):
        return {"done": "connected"}


def secret():
    return {"AGENT_API_KEY": os.environ.get("AGENT_API_KEY")}


tasks = {"count": count, "write": write, "look": look, "connect": connect, "secret": secret}
try:
    answer = tasks[json.load(sys.stdin)["task"]]()
except OSError as err:
    answer = {"refused": err.strerror or str(err)}
json.dump(answer, sys.stdout)
