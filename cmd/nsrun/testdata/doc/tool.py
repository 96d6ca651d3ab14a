"""Counts the words of a request: {"text": "..."} on standard input, {"words": N} on standard output."""

import json
import sys

request = json.load(sys.stdin)
print(json.dumps({"words": len(request["text"].split())}))
