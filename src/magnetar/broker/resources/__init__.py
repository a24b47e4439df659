"""What a broker may take of its machine: memory, buffers and file descriptors, and how often each limit was hit."""
