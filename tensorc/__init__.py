"""Mathematics of tensor operators in, checked and scheduled kernels out."""
