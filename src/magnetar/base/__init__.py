"""What every other package rests on: positions, names, errors, limits, and the outside world as interfaces."""
