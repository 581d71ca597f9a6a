"""Machines as data: instructions and layouts per architecture, rates per product."""
