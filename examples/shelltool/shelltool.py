"""The shell tool of an agent: runs a command line that its command rules accept, and reports to the model what came of it.

    python3 shelltool.py ls -la
"""

import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
NSRUN = os.environ.get("NSRUN") or "nsrun"


def call(argv):
    with tempfile.TemporaryFile() as file:
        done = subprocess.run(
            [NSRUN, "run", "--manifest", f"{HERE}/manifest.json", "--workspace", f"{HERE}/artifacts",
             "--result", f"FD:{file.fileno()}", "--", *argv],
            pass_fds=[file.fileno()], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
        file.seek(0)
        result = json.load(file)
    verdict = result["verdict"]
    if verdict == "policy":  # nothing has run: ask for something else
        return {"outcome": "refused", "reason": result["error"], "hint": result.get("hint")}
    if verdict == "not-found":  # for information: go on without
        return {"outcome": "not installed", "program": argv[0]}
    if verdict == "setup":  # not the model's business
        sys.exit(done.stderr)
    outcome = "ok" if verdict == "ok" else "failed"  # it ran: evidence either way
    return {"outcome": outcome, "verdict": verdict, "code": result["code"], "stdout": done.stdout, "stderr": done.stderr}


if __name__ == "__main__":
    print(json.dumps(call(sys.argv[1:]), indent=1))
