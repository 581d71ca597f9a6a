"""How much a test does: about a tenth by default, all of it under TENSORC_PROFILE=campaign."""

from __future__ import annotations

import os

CAMPAIGN = os.environ.get("TENSORC_PROFILE") == "campaign"


def count(campaign: int, ci: int | None = None) -> int:
    """`campaign` things in a campaign, else `ci` of them (a tenth, at least one)."""
    return campaign if CAMPAIGN else ci if ci is not None else max(1, campaign // 10)
