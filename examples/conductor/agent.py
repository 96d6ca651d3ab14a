"""An agent: works in its workspace, tells the others, and asks its server. With the word "greedy" it wants memory without end."""

import json
import os
import socket
import sys
from pathlib import Path

AGENTS = Path.home() / "agents"


def attempt(what):
    try:
        return what()
    except OSError as err:
        return err.strerror


def ask(name):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(AGENTS / "mcp" / name))
        s.sendall(b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}\n')
        return ", ".join(tool["name"] for tool in json.loads(s.makefile().readline())["result"]["tools"])


def connect():
    with socket.socket() as s:
        s.settimeout(3)
        s.connect(("192.0.2.1", 80))
    return "connected"


def eat():
    eaten = []
    while True:
        eaten.append(b"x" * (1 << 20))


if sys.argv[1:] == ["greedy"]:
    eat()
Path("report.txt").write_text("all is well\n")
(AGENTS / "shared" / "writer.done").touch()
print("workspace: ", *os.listdir("."))
print("shared:    ", *os.listdir(AGENTS / "shared"))
print("notes:     ", attempt(lambda: ask("notes.sock")))
print("payroll:   ", attempt(lambda: ask("payroll.sock")))
print("network:   ", attempt(connect))
print("processes: ", len([name for name in os.listdir("/proc") if name.isdigit()]))
