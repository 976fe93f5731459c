"""Where a number comes from (machine, commit, software), the pages made from stored numbers, and fits to them."""
