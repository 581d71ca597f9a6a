"""IR to text to machine code."""
