"""How much the tests of level 3 do: all of it under TENSORC_PROFILE=campaign."""

from __future__ import annotations

import os

CAMPAIGN = os.environ.get("TENSORC_PROFILE") == "campaign"
