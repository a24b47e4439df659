"""The pages of ``docs/reference``, made from the code. They say nothing that the code does not say."""
