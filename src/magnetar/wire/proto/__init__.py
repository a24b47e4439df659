"""Generated protobuf modules and their ``.proto`` files; ``make proto`` regenerates them."""
