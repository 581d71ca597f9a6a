"""Loop problems written by hand, before level 2 produces them: `origin` says so in each.

A problem is a function of a product and of tile sizes, so that every machine number in it is read
from the machine file.
"""
