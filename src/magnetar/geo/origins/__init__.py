"""Which origin position each entry of a topic has, both ways, in little memory. Pure."""
