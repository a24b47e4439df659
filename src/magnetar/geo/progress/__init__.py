"""The acknowledgements of replicated subscriptions as states that merge, and the links that send them."""
