// Never read.
