"""The process in which cases run: one JSON case a line on stdin, one JSON finding a line on stdout.

A kernel that crashes takes this process with it, not the campaign.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from tensorc.fuzz.case import from_json
from tensorc.fuzz.oracle import Finding, examine


def main() -> None:
    """Answer cases until stdin closes."""
    for line in sys.stdin:
        try:
            finding = examine(from_json(line))
        except ValueError as error:
            finding = Finding("skip", "not a case", str(error))
        sys.stdout.write(json.dumps(asdict(finding)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
