"""What happens to the disks, and to what is stored on them."""
