"""Shows and removes the metadata of the files named, as mat2's file manager extension does.

Not by the command mat2: in 0.13.3 its --no-sandbox is the wrong way round, so that it sandboxes nothing.
"""
import json
import sys

from libmat2 import parser_factory

found = {}
for name in sys.argv[1:]:
    parser, _ = parser_factory.get_parser(name)
    parser.lightweight_cleaning = True
    before = parser.get_meta()
    cleaned = parser.remove_all()
    after = parser_factory.get_parser(parser.output_filename)[0].get_meta()
    found[name] = {"before": before, "cleaned": cleaned, "after": after, "output": parser.output_filename}
json.dump(found, sys.stdout)
