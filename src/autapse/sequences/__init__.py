"""Where the steps of a batch of sequences are: which row of a tensor belongs to which step of which sequence."""
