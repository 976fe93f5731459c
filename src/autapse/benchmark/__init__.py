"""How fast the layers are, compared with other implementations of the same networks that give equal results."""
