"""How fast the layers are: against other implementations of the same networks, after the results were found equal."""
