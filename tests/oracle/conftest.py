"""Puts this folder on the path of each suite below it, for the modules that they share."""
