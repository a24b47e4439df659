"""Generated protobuf modules and the ``.proto`` files that they come from; ``make proto`` writes them anew."""
